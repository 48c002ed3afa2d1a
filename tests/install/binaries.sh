#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# binaries.sh SOURCE_DIR BUILD_DIR CC - what the shared objects export and need.
#
# exports.txt beside this file is the list of libkvstore's symbols: a function added to a public
# header is added there too; one that disappears breaks old programs.
set -eu

source=$1 build=$2 cc=$3
library=$build/lib/libkvstore.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "$*"
    failed=1
}

exported() { # without the version node itself
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort
}

dynamic() { # FILE TAG: the values of a tag of the dynamic section
    readelf -d "$1" | sed -n "s/.*($2).*\[\(.*\)\].*/\1/p"
}

check_common() {
    if [ -n "$(dynamic "$1" RPATH)$(dynamic "$1" RUNPATH)" ]; then
        complain "${1##*/} has a run path"
    fi
    readelf -d "$1" | grep -q 'BIND_NOW\|FLAGS_1.*NOW' || complain "${1##*/} is not bound at load"
}

# libkvstore: the committed list, which is what the headers declare, and no dependency beyond.
exported "$library" >"$work/exported"
if ! diff -u "$(dirname "$0")/exports.txt" "$work/exported"; then
    complain "libkvstore's symbols (+) are not those of tests/install/exports.txt (-)"
fi
for header in "$source"/core/include/kvstore/*.h; do
    printf '#include <kvstore/%s>\n' "${header##*/}" |
        "$cc" -E -P -I "$source/core/include" -I "$source/sdk/include" -
done | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*visibility("default")))[^(]*[ *]\(kvs_[a-z0-9_]*\) *(.*/\1/p' |
    LC_ALL=C sort -u >"$work/declared"
if ! diff -u "$work/declared" "$work/exported"; then
    complain "libkvstore exports (+) other functions than its headers declare (-)"
fi
for needed in $(dynamic "$library" NEEDED); do
    case $needed in
        libltdl.so.* | libcjson.so.* | libc.so.* | ld-linux*) ;;
        *) complain "libkvstore needs $needed" ;;
    esac
done
[ "$(dynamic "$library" SONAME)" = libkvstore.so.0 ] || complain "libkvstore's SONAME has changed"

# Plugins: one symbol, everything else through the host's table.
n=0
for plugin in "$build"/lib/kvstore/plugins/*.so; do
    n=$((n + 1))
    if [ "$(exported "$plugin")" != kvs_plugin_entry_v1 ]; then
        complain "${plugin##*/} exports: $(exported "$plugin" | tr '\n' ' ')"
    fi
    if nm -D --undefined-only "$plugin" | grep ' kvs_'; then
        complain "${plugin##*/} needs symbols of libkvstore"
    fi
    case " $(dynamic "$plugin" NEEDED | tr '\n' ' ')" in
        *libkvstore*) complain "${plugin##*/} is linked to libkvstore" ;;
    esac
    check_common "$plugin"
done

echo "$(wc -l <"$work/exported") symbols, $n plugins"
[ "$n" -gt 0 ] && [ "$failed" -eq 0 ]
