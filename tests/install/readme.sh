#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# readme.sh SOURCE_DIR BUILD_DIR CC - the C program in README.md compiles and prints what it says.
#
# The program is the first ```c block; its output the first ```text block after it.
set -eu

source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

block() { # LANGUAGE
    awk -v open="\`\`\`$1" '
        $0 == open && !done { inside = 1; next }
        /^```/ && inside { inside = 0; done = 1 }
        inside { print }
    ' "$source/README.md"
}

block c >"$work/example.c"
block text >"$work/expected"
[ -s "$work/example.c" ] && [ -s "$work/expected" ]
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -I "$source/core/include" "$work/example.c" \
    -L "$build/lib" -lkvstore -Wl,-rpath,"$build/lib" -o "$work/example"
unset KVSTORE_PLUGIN_PATH || true
KVSTORE_PLUGIN_PATH=$build/share/kvstore/plugins.d "$work/example" >"$work/printed"
diff -u "$work/expected" "$work/printed"
