// expect: This format has no tensor scale.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/scaling/tensor_scale.hpp>
float scale = fourscale::encode_scale_of<fourscale::mxfp4>(2.0f);
