#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh WORK_DIR cpu|cuda: consumes the library in each way that the README names, from nothing but its source.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
work=$1
with_cuda=$([ "$2" = cuda ] && echo ON || echo OFF)

rm -rf "$work"
mkdir -p "$work"

# A repository for FetchContent, made of the working tree so that it holds what is not committed yet.
repo=$work/repo
mkdir "$repo"
tar -C "$source" -cf - CMakeLists.txt LICENSE cmake include | tar -C "$repo" -xf -
git -C "$repo" -c init.defaultBranch=main init -q
git -C "$repo" add -A
git -C "$repo" -c user.name=test -c user.email=test@localhost -c commit.gpgsign=false -c core.hooksPath=/dev/null \
  commit -q -m "fourscale"

quiet() { "$@" >"$work/log" 2>&1 || { echo "failed: $*"; cat "$work/log"; exit 1; }; }

quiet cmake -S "$source" -B "$work/library" -G Ninja -DFOURSCALE_BUILD_TESTS=OFF -DFOURSCALE_BUILD_BENCH=OFF \
  -DFOURSCALE_BUILD_EXAMPLES=OFF -DCMAKE_INSTALL_PREFIX="$work/installed"
quiet cmake --install "$work/library"

for how in find_package add_subdirectory fetch_content; do
  for cuda in $(printf '%s\n' OFF "$with_cuda" | sort -u); do
    build=$work/$how-$cuda
    from=$source
    [ $how = fetch_content ] && from=file://$repo
    quiet cmake -S "$here" -B "$build" -G Ninja -Dhow=$how -Dwith_cuda="$cuda" -Dfourscale_source="$from" \
      -DCMAKE_PREFIX_PATH="$work/installed" -DCMAKE_CUDA_ARCHITECTURES=100a-real
    quiet cmake --build "$build"
    quiet "$build/consumer"
    [ "$cuda" = OFF ] || quiet "$build/consumer_cuda"
    echo "ok $how, CUDA $cuda"
  done
done
