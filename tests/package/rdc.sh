#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rdc.sh WORK_DIR NVCC: two units that include every header and launch the same kernels link under -rdc=true. There
# each name has one definition in the whole program, so a kernel that is no template would be there twice. A third unit
# without -rdc=true has kernels and launches of its own, which are faster.
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
cat >"$work/main.cu" <<'EOF'
void const *first(), *second(), *third();
int main() { return first() && first() == second() && third() && third() != first() ? 0 : 1; }
EOF

flags=(-std=c++20 -arch=sm_90 -I"$include" -I"$work")
"$nvcc" "${flags[@]}" -rdc=true -DUNIT=first -c "$here/unit.cu" -o "$work/first.o"
"$nvcc" "${flags[@]}" -rdc=true -DUNIT=second -c "$here/unit.cu" -o "$work/second.o"
"$nvcc" "${flags[@]}" -DUNIT=third -c "$here/unit.cu" -o "$work/third.o"
"$nvcc" "${flags[@]}" -rdc=true "$work/main.cu" "$work/first.o" "$work/second.o" "$work/third.o" -o "$work/program"
"$work/program" || { echo "a call is not refused, or units of different kinds share a launch: see unit.cu"; exit 1; }
echo "two units under -rdc=true link, and one without"
