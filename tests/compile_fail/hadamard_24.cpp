// expect: A Hadamard transform has 2, 4, 8, ..., 128 elements.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/transform/hadamard.hpp>
fourscale::hadamard<24> transform;
