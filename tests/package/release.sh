#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh WORK_DIR: `./run release` tags a tree in which everything agrees on the version, and no other.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$1

rm -rf "$work"
mkdir -p "$work"
cd "$work"
for file in run .gitignore CHANGELOG.md include/fourscale/config.hpp cmake/vcpkg/fourscale/vcpkg.json; do
  mkdir -p "$(dirname $file)"
  cp "$source/$file" $file
done
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost \
  GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
git init -q
commit() { git add -A && git commit -q -m "$1"; }

refused() { # SENTENCE
  local output
  if output=$(./run release 2>&1); then echo "./run release does not say: $1"; exit 1; fi
  [[ $output == *"$1"* ]] || { echo "./run release does not say: $1"; echo "$output"; exit 1; }
}

# A changelog that is ready, whatever this one says of a version that is not released yet.
version=$(sed -nE 's/^#define FOURSCALE_VERSION_(MAJOR|MINOR|PATCH) //p' include/fourscale/config.hpp | paste -sd.)
printf '# Changelog\n\n## [Unreleased]\n\n## %s - 2001-02-03\n\n- All of it.\n' "$version" >CHANGELOG.md
refused "not committed"
commit "ready"
./run release --dry-run | grep -q "would tag v$version"
[ -z "$(git tag)" ] || { echo "--dry-run made a tag"; exit 1; }

sed -i 's/"version": "/&9/' cmake/vcpkg/fourscale/vcpkg.json
commit "another version for vcpkg"
refused "vcpkg.json has another version"
git revert --no-edit HEAD >/dev/null

sed -i "s/^## $version.*/## $version - unreleased/" CHANGELOG.md
commit "no date"
refused "has no heading '## $version - YYYY-MM-DD'"
git revert --no-edit HEAD >/dev/null

sed -i 's/^## \[Unreleased\]/&\n\n- One more./' CHANGELOG.md
commit "something new"
refused "still has changes under [Unreleased]"
git revert --no-edit HEAD >/dev/null

./run release >/dev/null
[ "$(git tag)" = "v$version" ] || { echo "no tag v$version"; exit 1; }
refused "there is a tag v$version already"
echo "./run release tags what agrees on its version"
