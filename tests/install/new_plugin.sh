#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# new_plugin.sh CMAKE BUILD_DIR CC - a project that `kvstore new-plugin` writes builds outside of this
# tree, against the build tree and against an installed prefix that was moved; it runs in place,
# conforms, is installed, turned off and on again, and masked.
set -eu

cmake=$1 build=$2 cc=$3
for name in $(env | sed -n 's/^\(KVSTORE_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME="$work/data" XDG_CONFIG_HOME="$work/config" CC="$cc"
cd "$work"

fail() {
    echo "$*"
    exit 1
}

# says TEXT COMMAND…: the command succeeds and prints a line that matches.
says() {
    text=$1
    shift
    "$@" >"$work/out" || fail "failed: $*: $(cat "$work/out")"
    grep -q "$text" "$work/out" || fail "$* says nothing like '$text': $(cat "$work/out")"
}

# project NAME PREFIX: write, build and test it, in place.
project() {
    "$2/bin/kvstore" new-plugin "$1" >/dev/null
    if [ -n "$(find "$2" -name libkvstore-net.a)" ]; then
        echo "target_link_libraries(kvs_$1 PRIVATE kvstore::net)" >>"$1/CMakeLists.txt"
    fi
    "$cmake" -S "$1" -B "$1/build" "-DCMAKE_PREFIX_PATH=$2" "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror" \
        >"$1.log" 2>&1 || fail "$(cat "$1.log")"
    "$cmake" --build "$1/build" >>"$1.log" 2>&1 || fail "$(cat "$1.log")"
    (cd "$1/build" && "${cmake%cmake}ctest" --output-on-failure --no-tests=error) >"$1.ctest" 2>&1 ||
        fail "$(cat "$1.ctest")"
    grep -q '100% tests passed, 0 tests failed out of 3' "$1.ctest" || fail "$(cat "$1.ctest")"
}

echo "-- against the build tree, in place"
project early "$build"
says '^early .* ok .*/early/build/' \
    env "KVSTORE_PLUGIN_PATH=$work/early/build/share/kvstore/plugins.d:" "$build/bin/kvstore" list

echo "-- against a prefix"
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv first "second place"
prefix="$work/second place" kvstore="$work/second place/bin/kvstore"
project acme "$prefix"
"$cmake" --install acme/build --prefix "$prefix" >/dev/null
says '^acme .* ok .*/second place/share/kvstore/plugins.d/acme.json' "$kvstore" list
says '^conformance acme: .* 0 failed' "$kvstore" conformance acme
says 'acme .* ok ' "$kvstore" doctor
says 'acme.json: ok' "$kvstore" check "$prefix/share/kvstore/plugins.d/acme.json"

echo "-- off and on"
says "^acme: disabled, masked by $work/data/kvstore/plugins.d/acme.json" \
    "$kvstore" disable acme --user
if "$kvstore" conformance acme >out 2>&1; then
    fail "a disabled backend conforms"
fi
grep -q 'run: kvstore enable acme --user' out || fail "$(cat out)"
says '^state  *disabled' "$kvstore" info acme
says '^acme: ok' "$kvstore" enable acme --user
ln -s /dev/null "$work/data/kvstore/plugins.d/acme.json"
says '^acme .* disabled .*masked by ' "$kvstore" list
says '^acme: ok' "$kvstore" enable acme --user
rm "$prefix"/share/kvstore/plugins.d/acme.json
if "$kvstore" info acme >out 2>&1; then
    fail "a removed plugin is there"
fi
