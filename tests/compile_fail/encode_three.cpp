// expect: Values are packed in pairs.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/formats/convert.hpp>
auto encode(float const (&x)[3]) { return fourscale::encode<fourscale::e2m1>(x); }
