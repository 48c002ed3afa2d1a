#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# job.sh KVSTORE RUNNER SCRIPT - a job of two workers and a server in Clojure; each worker says that it is
# done, and may end by SIGINT (130). The scheduler is the command's, as a fourth Java would add nothing
# but time.
output=$("$1" run -w 2 -s 1 -- sh -c '
    [ "$KVSTORE_ROLE" != scheduler ] || exec "$0" scheduler
    sh "$1" --no-install "$2"
    status=$?
    [ $status -ne 130 ] || status=0
    exit $status' "$@" 2>&1)
status=$?
printf '%s\n' "$output"
case $output in
    *skipped:*) exit 77 ;;
esac
[ $status -eq 0 ] && [ "$(printf '%s\n' "$output" | grep -c 'rank [01] done')" -eq 2 ]
