// SPDX-License-Identifier: Apache-2.0
// The words that tcgen05 and TMA take, as constexpr bit fields: builders that refuse what does not exist with
// a sentence, at compile time where the shape is a template argument; parsers; and all of it in words.
#pragma once

#include "descriptor_text.hpp"
#include "instruction_descriptor.hpp"
#include "smem_descriptor.hpp"
#include "tma_box.hpp"
#include "tmem_address.hpp"
