#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# job.sh KVSTORE RUNNER SCRIPT [ROLES] - a job of two workers and a server in Clojure; each worker says that
# it is done, and may end by SIGINT (130). Those of ROLES, a pattern, are the command's: more of Java would
# add nothing but time.
output=$("$1" run -w 2 -s 1 -- sh -c '
    case $KVSTORE_ROLE in
        ${3-scheduler}) exec "$0" "$KVSTORE_ROLE" ;;
    esac
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
