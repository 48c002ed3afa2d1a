#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# job.sh KVSTORE RUNNER SCRIPT - a job of two workers and a server in Clojure; each worker says that it is done.
output=$("$1" run -w 2 -s 1 -- sh "$2" --no-install "$3" 2>&1)
status=$?
printf '%s\n' "$output"
case $output in
    *skipped:*) exit 77 ;;
esac
[ $status -eq 0 ] && [ "$(printf '%s\n' "$output" | grep -c 'rank [01] done')" -eq 2 ]
