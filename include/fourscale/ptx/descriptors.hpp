// SPDX-License-Identifier: Apache-2.0
// Includes all headers of descriptors: the instruction and shared-memory descriptors of tcgen05, addresses in
// tensor memory, and the boxes of TMA. All of it is constexpr. There are builders and parsers of the bit
// fields, and describe(), which puts them into words. refusal() returns a sentence if a shape does not exist;
// where the shape is a template argument, the same sentence is a compile error.
#pragma once

#include "descriptor_text.hpp"
#include "instruction_descriptor.hpp"
#include "smem_descriptor.hpp"
#include "tma_box.hpp"
#include "tmem_address.hpp"
