// SPDX-License-Identifier: Apache-2.0
// Any word and any shape: the parsers and builders of ptx/ refuse it with a sentence, or what they parse is
// what they build.
#include <fourscale/ptx/descriptors.hpp>

#include "input.hpp"

using namespace fourscale;
using namespace fourscale::ptx;
using fuzz::promise;

namespace {

bool is_sentence(char const* text) { return text == nullptr || text[std::strlen(text) - 1] == '.'; }

void instruction(fuzz::input& in) {
  const u32 word = in.number<u32>();
  const auto kind = static_cast<mma_kind>(in.below(3));
  const auto p = parse_instruction_descriptor(word, kind, in.number<int>(), in.number<int>());
  promise(is_sentence(p.refusal) && describe(p).length > 0);
  if (p.refusal == nullptr) promise(instruction_descriptor(p.mma) == word && refusal(p.mma) == nullptr);
}

void any_mma(fuzz::input& in) {
  block_scaled_mma s;
  s.kind = static_cast<mma_kind>(in.below(3));
  s.cta_group = in.number<int>(), s.m = in.number<int>(), s.n = in.number<int>(), s.k = in.number<int>();
  s.block_size = in.number<int>();
  s.scale = static_cast<scale_type>(in.below(2));
  s.a = static_cast<element_type>(in.number<u8>()), s.b = static_cast<element_type>(in.number<u8>());
  s.sfa_id = in.number<int>(), s.sfb_id = in.number<int>();
  promise(is_sentence(refusal(s)) && describe(s).length > 0);
  if (refusal(s) != nullptr) return;
  const auto p = parse_instruction_descriptor(instruction_descriptor(s), s.kind, s.cta_group, s.block_size);
  promise(p.refusal == nullptr && p.mma == s);
}

void shared_memory(fuzz::input& in) {
  const u64 word = in.number<u64>();
  const auto p = parse_smem_descriptor(word);
  promise(is_sentence(p.refusal) && describe(p).length > 0);
  if (p.refusal == nullptr) promise(smem_descriptor(p.fields) == word);
}

void tile_and_box(fuzz::input& in) {
  const auto pattern = static_cast<swizzle>(in.number<u8>());
  const k_major_tile t{in.number<int>(), in.number<int>(), in.number<int>(), pattern};
  promise(is_sentence(refusal(t)));
  if (refusal(t) == nullptr) {
    const int last = t.offset(t.rows - 1, t.row_bytes() - 1);
    promise(last >= 0 && last < t.size_bytes());
  }
  const tma_box box{static_cast<tma_type>(in.below(16)), in.number<int>(), in.number<int>(), pattern};
  promise(is_sentence(refusal(box)) && describe(box).length > 0);
  const tma_matrix m{in.number<u64>(), in.number<u64>(), in.number<u64>(), in.number<u64>()};
  promise(is_sentence(refusal(m, box.type)));
  promise(describe(parse_tmem_address(in.number<u32>())).length > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(u8 const* data, std::size_t size) {
  fuzz::input in(data, size);
  const int what = in.below(4);
  if (what == 0) instruction(in);
  if (what == 1) any_mma(in);
  if (what == 2) shared_memory(in);
  if (what == 3) tile_and_box(in);
  return 0;
}
