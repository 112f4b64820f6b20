// expect: fourscale needs C++20
// flags: -std=c++17
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/config.hpp>
