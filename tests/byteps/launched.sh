#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launched.sh KVSTORE PROGRAM - a job that is told by the variables of BytePS's launcher alone: two machines
# with two workers each, as far as the variables go, two servers and a scheduler.
set -u
kvstore=$1 program=$2
scenario=the_launcher_s_variables_are_enough

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkfifo "$work/address" || exit 1

unset KVSTORE_SCHEDULER KVSTORE_NUM_WORKERS KVSTORE_NUM_SERVERS KVSTORE_RANK KVSTORE_ROLE KVSTORE_JOB_ID
export DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=2 BYTEPS_LOCAL_SIZE=2
export BYTEPS_PARTITION_BYTES=300000 BYTEPS_SCHEDULING_CREDIT=2

DMLC_ROLE=scheduler DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=0 "$kvstore" scheduler \
    --backend byteps --announce "$work/address" </dev/null &
pids=$!
read -r address <"$work/address" || exit 1
export DMLC_PS_ROOT_URI="${address%:*}" DMLC_PS_ROOT_PORT="${address##*:}"

for server in 0 1; do
    DMLC_ROLE=server DMLC_SERVER_ID=$server "$kvstore" server --backend byteps </dev/null &
    pids="$pids $!"
done
export DMLC_ROLE=worker
for machine in 0 1; do
    DMLC_WORKER_ID=$machine BYTEPS_LOCAL_RANK=0 "$program" $scenario </dev/null &
    pids="$pids $!"
done
# The rank may also be given as it is.
DMLC_WORKER_ID=0 BYTEPS_LOCAL_RANK=1 BYTEPS_GLOBAL_RANK=1 "$program" $scenario </dev/null &
pids="$pids $!"
DMLC_WORKER_ID=1 BYTEPS_LOCAL_RANK=1 "$program" $scenario </dev/null &
pids="$pids $!"

failed=0
for pid in $pids; do
    wait "$pid" || failed=1
done
exit "$failed"
