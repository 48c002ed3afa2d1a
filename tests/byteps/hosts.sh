#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hosts.sh KVSTORE PROGRAM ARGUMENTS N_SERVERS N_WORKERS… [-- FAILED] - a job on several hosts, which are network
# namespaces on a bridge, with so many workers each; servers go round the hosts, from the last on.
# FAILED: how many processes are to fail (0). Exit status 77 where namespaces can't be made.
set -u
kvstore=$1 program=$2 arguments=$3 n_servers=$4
shift 4
hosts='' n_hosts=0 n_workers=0 want=0
while [ $# -gt 0 ]; do
    if [ "$1" = -- ]; then
        want=$2
        break
    fi
    hosts="$hosts $1"
    n_hosts=$((n_hosts + 1))
    n_workers=$((n_workers + $1))
    shift
done

work=$(mktemp -d) || exit 1
pids=''
remove() {
    [ -z "$pids" ] || kill $pids 2>/dev/null # nothing, unless this script was told to end
    i=0
    while [ $i -le $n_hosts ]; do
        ip netns del "kvs-$i-$$" 2>/dev/null
        i=$((i + 1))
    done
    rm -rf "$work"
}

# Namespace 0 has the bridge, 1 … the hosts, 10.77.1.N each.
cables() {
    ip netns add "kvs-0-$$" && ip -n "kvs-0-$$" link add bridge type bridge &&
        ip -n "kvs-0-$$" link set bridge up || return 1
    i=1
    while [ $i -le $n_hosts ]; do
        ip netns add "kvs-$i-$$" &&
            ip link add cable netns "kvs-$i-$$" type veth peer name "port$i" netns "kvs-0-$$" &&
            ip -n "kvs-0-$$" link set "port$i" master bridge up &&
            ip -n "kvs-$i-$$" addr add "10.77.1.$i/24" dev cable &&
            ip -n "kvs-$i-$$" link set cable up && ip -n "kvs-$i-$$" link set lo up || return 1
        i=$((i + 1))
    done
}

command -v ip >/dev/null || {
    echo "skipped: no ip (Debian: iproute2)"
    exit 77
}
trap remove EXIT
trap 'exit 1' HUP INT TERM
why=$(cables 2>&1) || {
    echo "skipped: network namespaces can't be made here: $why"
    exit 77
}

# on HOST COMMAND…: there, as the process that `$!` is.
on() {
    host=$1
    shift
    ip netns exec "kvs-$host-$$" "$@" </dev/null >>"$work/output" 2>&1 &
    pids="$pids $!"
}

mkfifo "$work/address" || exit 1
export KVS_TEST_HOSTS="$hosts" KVS_TEST_SCRATCH="$work"
export KVSTORE_NUM_WORKERS=$n_workers KVSTORE_NUM_SERVERS="$n_servers" KVSTORE_INSECURE=1
export KVSTORE_JOB_ID="hosts-$$" KVSTORE_RENDEZVOUS=40
KVSTORE_SCHEDULER=10.77.1.1:0 on 1 "$kvstore" scheduler --backend byteps --announce "$work/address"
read -r KVSTORE_SCHEDULER <"$work/address" || exit 1
export KVSTORE_SCHEDULER

i=0
while [ $i -lt "$n_servers" ]; do
    KVSTORE_ROLE=server KVSTORE_RANK=$i on $((n_hosts - i % n_hosts)) "$kvstore" server --backend byteps
    i=$((i + 1))
done
export KVSTORE_ROLE=worker
host=0 rank=0
for n in $hosts; do
    host=$((host + 1)) i=0
    while [ $i -lt "$n" ]; do
        KVSTORE_RANK=$rank on $host "$program" $arguments
        rank=$((rank + 1)) i=$((i + 1))
    done
done

failed=0
for pid in $pids; do
    wait "$pid" || failed=$((failed + 1))
done
pids=''
cat "$work/output"
if [ $failed -ne "$want" ] || grep -q 'FAILED' "$work/output"; then
    echo "hosts.sh: $failed processes failed, not $want, or a scenario in one"
    exit 1
fi
