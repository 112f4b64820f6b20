// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fourscale/interop/cublaslt.cuh>

#include "support/catch.hpp"

namespace fourscale::test {

/// A handle that lives as long as this object.
struct cublaslt_handle {
  cublasLtHandle_t handle{};
  cublaslt_handle() { REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS); }
  ~cublaslt_handle() { cublasLtDestroy(handle); }
  cublaslt_handle(cublaslt_handle const&) = delete;
};

}  // namespace fourscale::test
