#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh PLUGIN PATTERN LIBRARY… - every function that the plugin looks up at run time, a text in it that matches the
# pattern, is in the first LIBRARY that exists: the toolkit's own, not a stand-in.
plugin=$1 pattern=$2
shift 2
for library in "$@"; do
    [ -e "$library" ] && break
    library=
done
[ -n "$library" ] || { echo "skipped: none of $*"; exit 77; }
wanted=$(strings -a "$plugin" | grep -E -x "$pattern" | sort -u)
has=$(nm -D --defined-only "$library" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u)
n=0
for name in $wanted; do
    n=$((n + 1))
    printf '%s\n' "$has" | grep -q -x "$name" || { echo "$library has no $name"; exit 1; }
done
echo "$n functions of $library"
[ "$n" -gt 10 ]
