#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pkgconfig.sh CMAKE BUILD_DIR CC PKG_CONFIG - a plugin and a program built by hand, with what the .pc
# files of an installed prefix say, also after it was moved.
set -eu

cmake=$1 build=$2 cc=$3 pkg_config=$4
if [ "${pkg_config%NOTFOUND}" != "$pkg_config" ]; then
    echo "skipped: no pkg-config"
    exit 77
fi
for name in $(env | sed -n 's/^\(KVSTORE_[A-Z_]*\)=.*/\1/p'); do
    unset "$name"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME="$work/data" XDG_CONFIG_HOME="$work/config"
cd "$work"
"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv first moved
pc=$(find "$work/moved" -name kvstore.pc)
export PKG_CONFIG_PATH="${pc%/*}" PKG_CONFIG_LIBDIR=/nonexistent
kvstore=$work/moved/bin/kvstore
version=$("$pkg_config" --modversion kvstore)
[ "kvstore $version" = "$("$kvstore" --version)" ]

"$kvstore" new-plugin byhand >/dev/null
plugindir=$("$pkg_config" --variable=plugindir kvstore)
manifestdir=$("$pkg_config" --variable=manifestdir kvstore)
# shellcheck disable=SC2046 # words
"$cc" -shared -fPIC -fvisibility=hidden -O2 '-DBYHAND_VERSION="0.1.0"' byhand/byhand.c \
    -o "$plugindir/kvs_byhand.so" $("$pkg_config" --cflags --libs kvstore-kit) \
    -Wl,-z,now -Wl,-z,defs -Wl,--exclude-libs,ALL
sed -e "s|@KVS_LIBRARY@|$plugindir/kvs_byhand.so|" -e 's|@PROJECT_VERSION@|0.1.0|' \
    -e "s|@KVS_ARCH@|$("$pkg_config" --variable=arch kvstore)|" byhand/byhand.json.in \
    >"$manifestdir/byhand.json"
"$kvstore" check "$manifestdir/byhand.json"
"$kvstore" conformance byhand | tail -n 1 | grep ' 0 failed'

# shellcheck disable=SC2046 # words
"$cc" byhand/test_byhand.c -o program $("$pkg_config" --cflags --libs kvstore)
LD_LIBRARY_PATH=$("$pkg_config" --variable=libdir kvstore) ./program
