#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# prefix.sh CMAKE BUILD_DIR CC PYTHON - an installed prefix works, also after it has been moved: the
# command lists what is there, and a program built against it from outside creates a store.
set -eu

cmake=$1 build=$2 cc=$3 python=$4
here=$(cd "$(dirname "$0")" && pwd)
unset KVSTORE_PLUGIN_PATH || true
for dir in /etc/kvstore/plugins.d /usr/local/share/kvstore/plugins.d; do
    if [ -d "$dir" ]; then
        echo "skipped: plugins in $dir come before those of a prefix"
        exit 77
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log"
mkdir "$work/some where"
mv "$work/first" "$work/some where/else"
prefix=$work/some\ where/else
libdir=$(dirname "$(find "$prefix" -name 'libkvstore.so')")

echo "-- the command"
"$prefix/bin/kvstore" list --json >"$work/list.json"
"$python" "$here/check_list.py" "$work/list.json" "$prefix" compressors device local \
    optimizers teststore

echo "-- a program from outside"
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -I "$prefix/include" "$here/outside.c" \
    -L "$libdir" -lkvstore -o "$work/outside"
LD_LIBRARY_PATH=$libdir "$work/outside"

echo "-- no path of this machine in what was installed"
if grep -rlF -e "$build" -e "$work/first" "$prefix/share" "$prefix/include"; then
    echo "the files above name a path of the build"
    exit 1
fi
