#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rdc.sh WORK_DIR NVCC: two units that include every header and launch the same kernels link under -rdc=true. There
# each name has one definition in the whole program, so a kernel that is no template would be there twice.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
include=$(cd "$here/../../include" && pwd)
work=$1
nvcc=$2

rm -rf "$work"
mkdir -p "$work"
# All but the headers that speak to other libraries; formats/io.hpp needs fmt.
find "$include/fourscale" \( -name '*.hpp' -o -name '*.cuh' \) ! -path '*/interop/*' ! -path '*/formats/io.hpp' |
  sort | sed 's/.*/#include "&"/' >"$work/every_header.cuh"
echo 'bool first(), second(); int main() { return first() && second() ? 0 : 1; }' >"$work/main.cu"

flags=(-std=c++20 -arch=sm_90 -rdc=true -I"$include" -I"$work")
"$nvcc" "${flags[@]}" -DUNIT=first -c "$here/unit.cu" -o "$work/first.o"
"$nvcc" "${flags[@]}" -DUNIT=second -c "$here/unit.cu" -o "$work/second.o"
"$nvcc" "${flags[@]}" "$work/main.cu" "$work/first.o" "$work/second.o" -o "$work/program"
"$work/program"
echo "two units under -rdc=true link"
