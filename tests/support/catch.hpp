// SPDX-License-Identifier: Apache-2.0
// Catch2, version 2.13 or 3. A device pass gets empty stand-ins instead: it only needs to see which kernels a
// test launches, and reading Catch2 once for every architecture would cost more than all the rest of the
// build.
#pragma once

#if !defined(__CUDA_ARCH__)

#if FOURSCALE_CATCH2_V3
#include <catch2/catch_all.hpp>
#ifdef __CUDACC__
// Around every check Catch2 3 tells nvcc to push and pop its diagnostics. cudafe++ of CUDA 13.0 never ends on
// three of our files with them. What they would restore is one warning, of globals that nobody names.
#undef CATCH_INTERNAL_START_WARNINGS_SUPPRESSION
#undef CATCH_INTERNAL_STOP_WARNINGS_SUPPRESSION
#define CATCH_INTERNAL_START_WARNINGS_SUPPRESSION
#define CATCH_INTERNAL_STOP_WARNINGS_SUPPRESSION
#endif
#else
#include <catch2/catch.hpp>
#endif

#else

#define FOURSCALE_TEST_JOIN2(a, b) a##b
#define FOURSCALE_TEST_JOIN(a, b) FOURSCALE_TEST_JOIN2(a, b)
#define TEST_CASE(...) [[maybe_unused]] static void FOURSCALE_TEST_JOIN(test_case_, __COUNTER__)()
#define SECTION(...) if (true)
#define CHECK(...) static_cast<void>(__VA_ARGS__)
#define CHECK_FALSE(...) static_cast<void>(__VA_ARGS__)
#define REQUIRE(...) static_cast<void>(__VA_ARGS__)
#define INFO(...) static_cast<void>(0)
#define CAPTURE(...) static_cast<void>(0)
#define WARN(...) static_cast<void>(0)
#define FAIL(...) static_cast<void>(0)
#define SUCCEED(...) static_cast<void>(0)

#endif
