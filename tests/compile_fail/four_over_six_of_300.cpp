// expect: four_over_six uses 256 or 448 of the range of E4M3.
// SPDX-License-Identifier: Apache-2.0
#include <fourscale/scaling/four_over_six.hpp>
fourscale::four_over_six<fourscale::error_norm::mean_absolute, 300> rule;
