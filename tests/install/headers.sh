#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh SOURCE_DIR CC [CXX] - each public header compiles alone, as strict C11 and as C++11.
set -eu

source=$1 cc=$2 cxx=${3-}
failed=0
n=0

check() { # COMPILER LANGUAGE HEADER FLAGS…
    compiler=$1 language=$2 header=$3
    shift 3
    if ! printf '#include <kvstore/%s>\n' "$header" |
        "$compiler" -x "$language" "$@" -Wall -Wextra -Werror -pedantic-errors -fsyntax-only \
            -I "$source/core/include" -I "$source/sdk/include" -; then
        echo "$header does not compile alone as $language"
        failed=1
    fi
    n=$((n + 1))
}

for path in "$source"/core/include/kvstore/*.h "$source"/sdk/include/kvstore/*.h; do
    header=${path##*/}
    check "$cc" c "$header" -std=c11
    [ -z "$cxx" ] || check "$cxx" c++ "$header" -std=c++11
done
[ -n "$cxx" ] || echo "no C++ compiler: headers checked as C only"
echo "$n compilations"
[ "$n" -gt 0 ] && [ "$failed" -eq 0 ]
