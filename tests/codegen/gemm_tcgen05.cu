// SPDX-License-Identifier: Apache-2.0
// The tcgen05 GEMM as the hardware form of its kernel comes out: MMA of each kind for one CTA and for a pair,
// fed by TMA, which also feeds two pairs that share B at once; scales copied to tensor memory, and D stored
// by TMA; no spills, and shared memory within 227 KiB (static: here; dynamic: below). Elsewhere the kernel is
// empty.
// sm_80: !tcgen05
// sm_90a: !tcgen05
// sm_90a spills: 0
// sm_100: !tcgen05
// sm_120a: !tcgen05
// sm_120a spills: 0
// sm_121a: !tcgen05
// sm_121a spills: 0
// sm_100a: tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16
// sm_100a: tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16
// sm_100a: tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block32
// sm_100a: tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32
// sm_100a: tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64
// sm_100a: cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// sm_100a: bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
// sm_100a: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
// sm_100a: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
// sm_100a: cp.async.bulk.wait_group.read
// sm_100a: mbarrier.arrive.release.cluster.shared::cluster.b64
// sm_100a: fence.proxy.async.shared::cta
// sm_100a spills: 0
// sm_100a registers: 128
// sm_100a smem: 2048
// sm_100f spills: 0
// sm_103a spills: 0
// sm_103a smem: 2048
// sm_110a spills: 0
// sm_100a sass: UTCOMMA.4X
// sm_100a sass: UTCOMMA.2CTA.4X
// sm_100a sass: UTCQMMA.2CTA
// sm_100a sass: UTCCP.T.S.4x32dp128bit
// sm_100a sass: UTCCP.T.S.2CTA.4x32dp128bit
// sm_100a sass: UTCBAR.2CTA.MULTICAST
// sm_100a sass: UTMALDG.2D
// sm_100a sass: UTMALDG.2D.MULTICAST
// sm_100a sass: UBLKCP.S.G.MULTICAST
// sm_100a sass: UTMASTG.2D
// sm_100a sass: STS.128
// sm_100a sass: LDTM.x16
// sm_100f sass: UTCOMMA.4X
// sm_103a sass: UTCOMMA.BLOCK16
// sm_103a sass: UTCOMMA.2CTA.BLOCK16
// sm_110a sass: UTCOMMA.4X
#include <fourscale/device/gemm_tcgen05.cuh>

namespace f4 = fourscale;
namespace tc = fourscale::mma::tcgen05;

template <class F, class T, int CtaGroup, int Columns, int Sharing = 1>
f4::errc multiply(f4::block_scaled_view<F, f4::swizzled_128x4> const& a,
                  f4::block_scaled_view<F, f4::swizzled_128x4> const& b, f4::matrix_view<T> const& d) {
  static_assert(tc::tile<F, F, CtaGroup, Columns, Sharing>::shared_bytes + 2048 <= 232448);
  return f4::device::gemm_tcgen05<tc::hardware<CtaGroup, Sharing>, Columns>(a, b, d);
}

template f4::errc multiply<f4::nvfp4, f4::bf16, 1, 256>(
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&,
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&, f4::matrix_view<f4::bf16> const&);
template f4::errc multiply<f4::nvfp4, float, 2, 256>(
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&,
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&, f4::matrix_view<float> const&);
template f4::errc multiply<f4::mxfp4, f4::bf16, 1, 128>(
    f4::block_scaled_view<f4::mxfp4, f4::swizzled_128x4> const&,
    f4::block_scaled_view<f4::mxfp4, f4::swizzled_128x4> const&, f4::matrix_view<f4::bf16> const&);
template f4::errc multiply<f4::mxfp8_e4m3, f4::bf16, 2, 256>(
    f4::block_scaled_view<f4::mxfp8_e4m3, f4::swizzled_128x4> const&,
    f4::block_scaled_view<f4::mxfp8_e4m3, f4::swizzled_128x4> const&, f4::matrix_view<f4::bf16> const&);
template f4::errc multiply<f4::nvfp4, f4::bf16, 2, 256, 2>(
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&,
    f4::block_scaled_view<f4::nvfp4, f4::swizzled_128x4> const&, f4::matrix_view<f4::bf16> const&);
