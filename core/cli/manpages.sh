#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# manpages.sh KVSTORE DIRECTORY - write the manual pages that the command tells of itself.
set -eu

kvstore=$1 directory=$2
rm -rf "$directory"
mkdir -p "$directory"
"$kvstore" --man >"$directory/kvstore.1"
"$kvstore" --words | while read -r name _; do
    "$kvstore" "--man=$name" >"$directory/kvstore-$name.1"
done
if command -v gzip >/dev/null; then
    gzip -9n "$directory"/*.1
fi
