#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# two_jobs.sh KVSTORE PROGRAM - two jobs of one user on one host, with the same keys, don't meet.
set -u
kvstore=$1 program=$2

"$kvstore" run -w 2 -s 2 --backend byteps -- "$program" sums_have_the_bits_of_local </dev/null &
first=$!
"$kvstore" run -w 2 -s 2 --backend byteps -- "$program" sums_have_the_bits_of_local </dev/null &
second=$!
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
