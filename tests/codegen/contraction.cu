// SPDX-License-Identifier: Apache-2.0
// No bit depends on whether a * b + c becomes one operation: where that is meant, the kernels say so. Under
// -fmad=false, in debug builds and by other compilers it does not. (Products of doubles are exact.)
// sm_90a contractible: 0
// sm_100a contractible: 0
#include "../architectures/kernels.cu"
