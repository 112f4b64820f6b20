// SPDX-License-Identifier: Apache-2.0
// Configuration: the version, what kind of compiler pass this is, which instructions it may emit, and the
// names of namespaces. No other file has #if on compilers and targets.
#pragma once

#define FOURSCALE_VERSION_MAJOR 0
#define FOURSCALE_VERSION_MINOR 1
#define FOURSCALE_VERSION_PATCH 0

#if !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L) && __cplusplus < 202002L
#error \
    "fourscale needs C++20: pass -std=c++20 (to nvcc as well: its default is C++17; in CMake, link fourscale::cuda)"
#endif

#if defined(__CUDACC_VER_MAJOR__) && 100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__ < 1209
#error "fourscale needs CUDA 12.9 or later"
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "fourscale needs sm_80 or later: pass -arch=sm_80, or whatever the GPU is (nvcc 13's default is sm_75)"
#endif

#if defined(__FAST_MATH__)
#error \
    "fourscale promises bits that -ffast-math breaks: compile this file without it (nvcc --use_fast_math is fine)"
// The parts of -ffast-math, as far as the compiler reports them: g++ reports each, clang 14 only the first.
// Do not pass the others to clang: -fassociative-math changes bits.
#elif (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || defined(__RECIPROCAL_MATH__)
#error \
    "fourscale promises bits that parts of -ffast-math break: compile this file without -ffinite-math-only, -fassociative-math, -fno-signed-zeros, -freciprocal-math and -funsafe-math-optimizations"
#elif defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error \
    "fourscale promises bits that need float arithmetic in float: compile this file without x87 (for -m32 add -msse2 -mfpmath=sse) and without -funsafe-math-optimizations"
#endif

// clang defines __CUDACC__ only in its wrapper header, so __CUDA__ is tested as well.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || (defined(__clang__) && defined(__CUDA__))
#define FOURSCALE_CUDA 1
#define FOURSCALE_HD FOURSCALE_H __host__ __device__
#define FOURSCALE_D __device__
#else
#define FOURSCALE_CUDA 0
#define FOURSCALE_HD FOURSCALE_H
#define FOURSCALE_D
#endif

// NVRTC compiles kernels at run time. It has no host pass and no system headers.
#if defined(__CUDACC_RTC__)
#define FOURSCALE_RTC 1
#else
#define FOURSCALE_RTC 0
#endif

// 0 on a host pass; 900, 1000, ... on a device pass.
#if defined(__CUDA_ARCH__)
#define FOURSCALE_DEVICE_PASS __CUDA_ARCH__
#else
#define FOURSCALE_DEVICE_PASS 0
#endif

// The suffix of the target, as in sm_100f (family) and sm_100a (architecture). Plain sm_100 has neither, and
// none of the 4-bit instructions.
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#define FOURSCALE_DETAIL_FAMILY __CUDA_ARCH_FAMILY_SPECIFIC__
#else
#define FOURSCALE_DETAIL_FAMILY 0
#endif
#if defined(__CUDA_ARCH_SPECIFIC__)
#define FOURSCALE_DETAIL_SPECIFIC __CUDA_ARCH_SPECIFIC__
#else
#define FOURSCALE_DETAIL_SPECIFIC 0
#endif

// Loops over register arrays must unroll fully on the device; host compilers choose for themselves.
#if FOURSCALE_DEVICE_PASS
#define FOURSCALE_UNROLL _Pragma("unroll")
#else
#define FOURSCALE_UNROLL
#endif

// g++ -O2 does not unroll short loops, and then vectorizes nothing around them.
#if !FOURSCALE_CUDA && defined(__GNUC__) && !defined(__clang__)
#define FOURSCALE_UNROLL_ON_HOST _Pragma("GCC unroll 8")
#else
#define FOURSCALE_UNROLL_ON_HOST FOURSCALE_UNROLL
#endif

// a * b, rounded. On a CPU with fma, g++ would otherwise contract this product and an addition that follows
// into one fma with one rounding, which changes bits. (Adding -0 to a product changes no bits. g++'s own
// barrier, __builtin_assoc_barrier, is lost when g++ vectorizes: seen with 12.2.) clang contracts only under
// -ffp-contract=fast, which it does not report and nothing here can undo: do not pass it.
#if FOURSCALE_DEVICE_PASS || !defined(__GNUC__) || defined(__clang__) || \
    !(defined(__FMA__) || defined(__aarch64__))
#define FOURSCALE_ROUNDED_PRODUCT(a, b) ((a) * (b))
#else
#define FOURSCALE_ROUNDED_PRODUCT(a, b) __builtin_fmaf(a, b, -0.0f)
#endif

// Makes the optimizer forget what it knows about the variable x. g++ 13 concludes from an infinite quotient
// that the divisor was zero, although the quotient may have overflowed, and then removes what a caller does
// for small divisors (seen with 13.3 at -O2).
#if FOURSCALE_DEVICE_PASS || !defined(__GNUC__) || defined(__clang__) || __GNUC__ < 13 || \
    !(defined(__x86_64__) || defined(__aarch64__))
#define FOURSCALE_FORGET(x)
#elif defined(__aarch64__)
#define FOURSCALE_FORGET(x) asm("" : "+w"(x))
#else
#define FOURSCALE_FORGET(x) asm("" : "+x"(x))
#endif

// Always 0 or 1. They are macros, because inline asm must be removed from the source of a pass that cannot
// assemble it.
#define FOURSCALE_HAS_CVT_FP8 (FOURSCALE_DEVICE_PASS >= 890)
#define FOURSCALE_HAS_CVT_NARROW (FOURSCALE_DETAIL_FAMILY >= 1000 && FOURSCALE_DETAIL_FAMILY < 1300)
#define FOURSCALE_HAS_CVT_FMA (FOURSCALE_DEVICE_PASS >= 800 && !FOURSCALE_HAS_CVT_NARROW)
#define FOURSCALE_HAS_CVT_RS (FOURSCALE_DETAIL_SPECIFIC == 1000 || FOURSCALE_DETAIL_SPECIFIC == 1030)
#define FOURSCALE_HAS_ELECT (FOURSCALE_DEVICE_PASS >= 900)
#define FOURSCALE_HAS_WGMMA (FOURSCALE_DETAIL_SPECIFIC == 900)
#define FOURSCALE_HAS_CLUSTER (FOURSCALE_DEVICE_PASS >= 900)
#define FOURSCALE_HAS_TCGEN05 (FOURSCALE_DETAIL_FAMILY >= 1000 && FOURSCALE_DETAIL_FAMILY < 1200)
#define FOURSCALE_HAS_MULTICAST (FOURSCALE_HAS_WGMMA || FOURSCALE_HAS_TCGEN05)
#define FOURSCALE_HAS_MMA_BLOCK_SCALE (FOURSCALE_DETAIL_FAMILY >= 1200 && FOURSCALE_DETAIL_FAMILY < 1300)

// Internal linkage without -rdc, hidden visibility with it: of two libraries that instantiate the same
// kernel, neither may launch the other's copy (nvcc 13 ensures this by default, nvcc 12 does not). Every
// kernel is a template: nvcc ignores `inline` on a kernel, so with -rdc two translation units could not both
// define one that is no template.
#if defined(__CUDACC_RDC__)
#define FOURSCALE_KERNEL __attribute__((visibility("hidden"))) __global__
#else
#define FOURSCALE_KERNEL static __global__
#endif

// Names for the linker. It keeps one copy of whatever several translation units or libraries define under one
// name, so a name must say what differs. Types have the same name in all units of a version, for every
// machine and compiler, since views pass from one unit to another. Code is compiled for a machine, and its
// name says which one:
//   FOURSCALE_NAMESPACE  fourscale, and in it the inline namespace of the version, v0_1_0.
//   FOURSCALE_CPU        the inline namespace of host::. It names what the loops may use: cpu, cpu_avx2_fma,
//                        cpu_omp.
//   FOURSCALE_ARCH       the inline namespace of device::. It names the GPUs that its launches have kernels
//                        for: sm_900, sm_9001000 (900 and 1000); and whether they are built by -rdc=true,
//                        since such kernels may be far slower. It is hidden as well, because the name cannot
//                        say everything: sm_100 and sm_100a are both 1000; clang lists no GPUs.
//   FOURSCALE_H          stands before every other function that the host runs; FOURSCALE_HD includes it. The
//                        function's name then has an ABI tag that says what the function may use, if that is
//                        more than the baseline of its CPU.
// FOURSCALE_H cannot be put on the implicit default constructor of an aggregate, which is a function only at
// -O0.
#define FOURSCALE_DETAIL_VERSION_(major, minor, patch) v##major##_##minor##_##patch
#define FOURSCALE_DETAIL_VERSION(...) FOURSCALE_DETAIL_VERSION_(__VA_ARGS__)
#define FOURSCALE_NAMESPACE                                                                    \
  fourscale::inline FOURSCALE_DETAIL_VERSION(FOURSCALE_VERSION_MAJOR, FOURSCALE_VERSION_MINOR, \
                                             FOURSCALE_VERSION_PATCH)

#if defined(__AVX512F__)
#define FOURSCALE_DETAIL_VECTORS _avx512
#elif defined(__AVX2__)
#define FOURSCALE_DETAIL_VECTORS _avx2
#elif defined(__AVX__)
#define FOURSCALE_DETAIL_VECTORS _avx
#elif defined(__SSE4_1__)
#define FOURSCALE_DETAIL_VECTORS _sse4
#elif defined(__SSE3__)
#define FOURSCALE_DETAIL_VECTORS _sse3
#elif defined(__ARM_FEATURE_SVE2)
#define FOURSCALE_DETAIL_VECTORS _sve2
#elif defined(__ARM_FEATURE_SVE)
#define FOURSCALE_DETAIL_VECTORS _sve
#else
#define FOURSCALE_DETAIL_VECTORS
#endif
// Expands to `name` where the compiler defines `flag` as 1, else to nothing.
#define FOURSCALE_DETAIL_COMMA_1 ,
#define FOURSCALE_DETAIL_SECOND(a, b, ...) b
#define FOURSCALE_DETAIL_CHOOSE(...) FOURSCALE_DETAIL_SECOND(__VA_ARGS__)
#define FOURSCALE_DETAIL_IF_(flag, name) FOURSCALE_DETAIL_CHOOSE(FOURSCALE_DETAIL_COMMA_##flag name, , )
#define FOURSCALE_DETAIL_IF(flag, name) FOURSCALE_DETAIL_IF_(flag, name)
// A name: `first`, then the instruction sets that this translation unit may use, then `last`.
#define FOURSCALE_DETAIL_PASTE(first, a, b, c, d, e, f) first##a##b##c##d##e##f
#define FOURSCALE_DETAIL_NAMED_(...) FOURSCALE_DETAIL_PASTE(__VA_ARGS__)
#define FOURSCALE_DETAIL_NAMED(first, last)                                                               \
  FOURSCALE_DETAIL_NAMED_(first, FOURSCALE_DETAIL_VECTORS, FOURSCALE_DETAIL_IF(__AVX512BW__, bw),         \
                          FOURSCALE_DETAIL_IF(__AVX512VBMI__, _vbmi), FOURSCALE_DETAIL_IF(__FMA__, _fma), \
                          FOURSCALE_DETAIL_IF(__BMI2__, _bmi), last)

#if defined(_OPENMP)
#define FOURSCALE_CPU FOURSCALE_DETAIL_NAMED(cpu, _omp)
#else
#define FOURSCALE_CPU FOURSCALE_DETAIL_NAMED(cpu, )
#endif

#if defined(__CUDA_ARCH_LIST__) && !defined(__clang__)  // nvcc: the list is the same in all of its passes
#define FOURSCALE_DETAIL_SM_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, ...) \
  sm_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o##p##q##r##s##t
#define FOURSCALE_DETAIL_SM(...) FOURSCALE_DETAIL_SM_(__VA_ARGS__, , , , , , , , , , , , , , , , , , , , )
#define FOURSCALE_ARCH                                                                                       \
  FOURSCALE_DETAIL_NAMED(FOURSCALE_DETAIL_SM(__CUDA_ARCH_LIST__), FOURSCALE_DETAIL_IF(__CUDACC_RDC__, _rdc)) \
  FOURSCALE_DETAIL_HIDDEN
#else
#define FOURSCALE_ARCH sm_any FOURSCALE_DETAIL_HIDDEN
#endif

#if FOURSCALE_RTC  // NVRTC refuses functions that only a host could run
#define FOURSCALE_DETAIL_HIDDEN
#define FOURSCALE_H __device__
#elif defined(__GNUC__)
#define FOURSCALE_DETAIL_HIDDEN __attribute__((visibility("hidden")))
#define FOURSCALE_DETAIL_TEXT_(x) #x
#define FOURSCALE_DETAIL_TEXT(x) FOURSCALE_DETAIL_TEXT_(x)
#define FOURSCALE_DETAIL_IF_ANY(...) \
  __VA_OPT__(__attribute__((abi_tag(FOURSCALE_DETAIL_TEXT(FOURSCALE_DETAIL_NAMED(cpu, ))))))
#define FOURSCALE_H FOURSCALE_DETAIL_IF_ANY(FOURSCALE_DETAIL_NAMED(, ))
#else
#define FOURSCALE_DETAIL_HIDDEN
#define FOURSCALE_H
#endif

/// What the current compiler pass may emit. Read these inside function bodies only: host and device passes
/// see different values, so a signature or a class layout must never depend on them.
namespace FOURSCALE_NAMESPACE::arch {
/// cvt to and from e4m3x2 and e5m2x2: sm_89 and later.
inline constexpr bool has_cvt_fp8 = FOURSCALE_HAS_CVT_FP8;
/// cvt to and from e2m1x2, e2m3x2, e3m2x2, ue8m0x2: sm_100f/a, 103, 110, 120, 121 (PTX ISA 9.7.9.21).
inline constexpr bool has_cvt_narrow = FOURSCALE_HAS_CVT_NARROW;
/// No FP4 conversions, so formats/convert_fma.hpp stands in for them: sm_80 to sm_90, and later targets
/// without a suffix, such as plain sm_100.
inline constexpr bool has_cvt_fma = FOURSCALE_HAS_CVT_FMA;
/// cvt.rs, stochastic rounding: sm_100a and sm_103a only.
inline constexpr bool has_cvt_rs = FOURSCALE_HAS_CVT_RS;
/// Whether this unit is compiled by -rdc=true. A call in a kernel may then be to another unit, and even a
/// division is a call. So ptxas serializes wgmma (C7509) and ignores setmaxnreg (C7504); mma.sync is faster.
/// And it refuses a kernel that calls a function with more registers than the kernel may have.
#if defined(__CUDACC_RDC__)
inline constexpr bool is_relocatable = true;
#else
inline constexpr bool is_relocatable = false;
#endif
/// wgmma and setmaxnreg of Hopper: sm_90a only (PTX ISA 9.7.15).
inline constexpr bool has_wgmma = FOURSCALE_HAS_WGMMA;
/// Clusters of CTAs that reach each other's shared memory: sm_90 and later.
inline constexpr bool has_cluster = FOURSCALE_HAS_CLUSTER;
/// tcgen05 and tensor memory: sm_100f/a, 103, 110; not 12x (PTX ISA 9.7.16).
inline constexpr bool has_tcgen05 = FOURSCALE_HAS_TCGEN05;
/// Bulk copies by TMA to several CTAs at once (multicast), on the targets that ptxas advises: sm_90a, 100f/a,
/// 103, 110 (PTX ISA 9.7.9.25, 27).
inline constexpr bool has_multicast = FOURSCALE_HAS_MULTICAST;
/// mma.sync with block scales: sm_120f/a, 121 (PTX ISA 9.7.14).
inline constexpr bool has_mma_block_scale = FOURSCALE_HAS_MMA_BLOCK_SCALE;
}  // namespace FOURSCALE_NAMESPACE::arch

namespace FOURSCALE_NAMESPACE {
/// The version as one number: 10000 * major + 100 * minor + patch.
inline constexpr int version =
    10000 * FOURSCALE_VERSION_MAJOR + 100 * FOURSCALE_VERSION_MINOR + FOURSCALE_VERSION_PATCH;
}  // namespace FOURSCALE_NAMESPACE
