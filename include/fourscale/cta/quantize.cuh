// SPDX-License-Identifier: Apache-2.0
// The loop of every kernel that quantizes along rows. A walk says which blocks a thread takes, a producer
// where their values come from, a sink where codes and scales go (walk.cuh, producer.cuh, sink.cuh). A thread
// takes whole blocks, so threads exchange nothing. It loads all input of a batch before it computes, because
// the number of bytes in flight bounds the loop.
#pragma once

#include "producer.cuh"
#include "quantize_block.cuh"
#include "sink.cuh"

namespace FOURSCALE_NAMESPACE::cta {

/// Quantizes the blocks of `cursor`. All threads of a CTA call it. `q` is prepared(). `ByRow`: each row has
/// an amax of its own. Blocks whose fast form is not valid are loaded once more after the loop, and computed
/// by the definition.
template <block_format F, bool ByRow, class Cursor, producer Producer, class Sink, quantizer_for<F> Quantizer>
FOURSCALE_D void quantize(Cursor const& cursor, Producer const& source, Sink const& sink,
                          typename Sink::memory& memory, tensor_amax<F> const& amax, Quantizer const& q) {
  constexpr int batch = Cursor::batch;
  const auto where = [](place const& at) { return position{at.row, at.block * F::block_size}; };
  typename Producer::block_type raw[batch];
  const auto load = [&](int first) {
    if constexpr (requires { source.start(cursor.at(0)).arrived(); }) {
      decltype(source.start(cursor.at(0))) started[batch];
      FOURSCALE_UNROLL
      for (int i = 0; i < batch; ++i)
        if (cursor.inside(first + i)) started[i] = source.start(cursor.at(first + i));
      FOURSCALE_UNROLL
      for (int i = 0; i < batch; ++i)
        if (cursor.inside(first + i)) raw[i] = started[i].arrived();
    } else {
      FOURSCALE_UNROLL
      for (int i = 0; i < batch; ++i)
        if (cursor.inside(first + i)) raw[i] = source.load(cursor.at(first + i));
    }
  };
  load(0);
  float row_amax[batch];
  const auto load_row_amax = [&](int first) {
    FOURSCALE_UNROLL
    for (int i = 0; i < batch; ++i)
      row_amax[i] = ByRow && cursor.inside(first + i) ? amax.data[cursor.at(first + i).row] : 0.0f;
  };
  load_row_amax(0);
  sink.begin(memory, cursor);
  const tensor_scale<F> of_all = ByRow ? tensor_scale<F>{} : cursor.tensor(amax);
  u32 again = 0;  // one bit a step: its fast form was not valid
#pragma unroll 1
  for (int first = 0; first < cursor.steps(); first += batch) {
    if (first > 0) {
      load(first);
      load_row_amax(first);
    }
    try_quantize_blocks<F>(
        raw, q, [&](int i) { return ByRow ? amax.range.scale(row_amax[i]) : of_all; },
        [&](int i) { return where(cursor.at(first + i)); },
        [&](int i, attempt<F> const& result) {
          const int k = first + i;
          if (cursor.inside(k)) {
            sink.store(memory, cursor.at(k), result.block);
            again |= static_cast<u32>(!result.valid) << k;
          } else if (cursor.padding(k)) {
            sink.clear(memory, cursor.at(k));
          }
        });
  }
#pragma unroll 1
  for (int k = 0; again >> k != 0; ++k) {
    if ((again >> k & 1u) == 0) continue;
    const place at = cursor.at(k);
    sink.store(
        memory, at,
        quantize_by_definition<F>(source.load(at), q, ByRow ? amax.scale_of_own(at.row) : of_all, where(at)));
  }
  sink.finish(memory, cursor);
}

}  // namespace FOURSCALE_NAMESPACE::cta
