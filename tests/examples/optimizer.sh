#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# optimizer.sh SOURCE_DIR BUILD_DIR CC CMAKE - the example optimizer, built as its README says and by
# CMake, is found by its name when its files lie in a directory, and works.
set -eu

source=$1 build=$2 cc=$3 cmake=$4
for name in $(env | sed -n 's/^\(KVSTORE_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$cc" "$work/bin/cc"
export PATH="$work/bin:$build/bin:$PATH" CC="$cc"

# The headers as an author has them on the include path.
export CPATH="$source/core/include:$source/sdk/include"
installed=$build/share/kvstore/plugins.d

"$cc" -std=c11 -Wall -Wextra -Werror -ffp-contract=off "$source/tests/examples/optimizer.c" \
    -L "$build/lib" -lkvstore -Wl,-rpath,"$build/lib" -o "$work/program"

try() { # DIRECTORY of the manifest
    KVSTORE_PLUGIN_PATH="$1:$installed" kvstore info lion >"$work/info"
    grep -q '^parameters of lion: ' "$work/info"
    KVSTORE_PLUGIN_PATH="$1:$installed" kvstore list | grep -q '^lion .* optimizer .* ok '
    KVSTORE_PLUGIN_PATH="$1:$installed" "$work/program" "$work/states"
}

echo "-- without it"
if KVSTORE_PLUGIN_PATH=$installed "$work/program" "$work/states" >"$work/out"; then
    echo "the program works without the plugin"
    exit 1
fi
grep -q 'no optimizer named "lion"' "$work/out"

echo "-- as the README says"
cp -r "$source/sdk/examples/optimizer" "$work/readme"
awk '$0 == "```sh" && !done { inside = 1; next }
     /^```/ && inside { inside = 0; done = 1 }
     inside { print }' "$work/readme/README.md" >"$work/commands"
[ -s "$work/commands" ]
(cd "$work/readme" && sh -eu "$work/commands") >"$work/out"
grep -q 'lion.json: ok' "$work/out"
mv "$work/readme/plugins" "$work/dropped in"
try "$work/dropped in"

echo "-- by CMake"
"$cmake" -S "$source/sdk/examples/optimizer" -B "$work/build" "-DCMAKE_PREFIX_PATH=$build" \
    >"$work/out" 2>&1 && "$cmake" --build "$work/build" >>"$work/out" 2>&1 || {
    cat "$work/out"
    exit 1
}
try "$work/build/share/kvstore/plugins.d"
