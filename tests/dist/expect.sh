#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# expect.sh STATUS TEXT KVSTORE run … - a job ends with this exit status and says this text ("" any), no
# scenario in it fails, and no process of it is left.
set -u
status=$1 text=$2
shift 2

output=$(mktemp)
"$@" >"$output" 2>&1 </dev/null &
run=$!
wait "$run"
got=$?
cat "$output"

# processes in whose environment the job is: run-PID-TIME
left_over() {
    grep -las "KVSTORE_JOB_ID=run-$run-" /proc/[0-9]*/environ
}

failed=0
if [ "$got" -ne "$status" ]; then
    echo "expect.sh: exit status $got, not $status"
    failed=1
fi
if grep -q 'FAILED' "$output"; then
    echo "expect.sh: a scenario failed"
    failed=1
fi
if ! grep -qF -e "$text" "$output"; then
    echo "expect.sh: nobody says \"$text\""
    failed=1
fi
# what has been killed with its group may still be on its way out
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    left=$(left_over)
    [ -n "$left" ] || break
    sleep 1
done
if [ -n "$left" ]; then
    echo "expect.sh: left over: $left"
    failed=1
fi
rm -f "$output"
exit "$failed"
