#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hosts.sh MPIRUN PROGRAM N - two hosts as network namespaces, joined by a cable; N workers under mpirun, the
# last on the second host. Exit status 77 where namespaces can't be made.
set -u
mpirun=$1 program=$2 n=$3
a=kvs-a-$$ b=kvs-b-$$

remove() {
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
}

cable() {
    ip netns add "$a" && ip netns add "$b" &&
        ip link add "va$$" netns "$a" type veth peer name "vb$$" netns "$b" &&
        ip -n "$a" addr add 10.77.0.1/24 dev "va$$" && ip -n "$b" addr add 10.77.0.2/24 dev "vb$$" &&
        ip -n "$a" link set "va$$" up && ip -n "$b" link set "vb$$" up &&
        ip -n "$a" link set lo up && ip -n "$b" link set lo up
}

command -v ip >/dev/null || {
    echo "skipped: no ip (Debian: iproute2)"
    exit 77
}
trap remove EXIT
why=$(cable 2>&1) || {
    echo "skipped: network namespaces can't be made here: $why"
    exit 77
}
KVS_TEST_NETNS_A=/var/run/netns/$a KVS_TEST_NETNS_B=/var/run/netns/$b \
    KVSTORE_SCHEDULER=10.77.0.1:9100 KVSTORE_INSECURE=1 KVSTORE_LOG=info \
    "$mpirun" --allow-run-as-root --oversubscribe -n "$n" "$program"
