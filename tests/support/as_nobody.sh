#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# as_nobody.sh PROGRAM - run a test under uid and gid 65534, in a directory of that user's. Exits with
# 77 where that can't be had, or where the caller is not root and the test has run so already.
set -u

program=$1
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
    echo "skipped: needs root and setpriv"
    exit 77
fi
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
if ! as_nobody test -x "$program"; then
    echo "skipped: $program is not to be reached by others"
    exit 77
fi
dir=$(mktemp -d)
chown 65534:65534 "$dir"
cd "$dir" || exit 2
HOME=$dir TMPDIR=$dir as_nobody "$program"
status=$?
cd / && rm -rf "$dir"
exit "$status"
