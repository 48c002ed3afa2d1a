#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# selftest.sh KVSTORE CC - peers.sh and compare.py do what README.md says, without peers.
set -eu

kvstore=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*"
    cat "$work/printed"
    exit 1
}

has() { # TEXT: what was printed holds it
    grep -qF -- "$1" "$work/printed" || fail "not printed: $1"
}

row() { # PEER WORKLOAD BYTES MEDIAN ROUND
    printf '{"peer":"%s","workload":"%s","size_bytes":%s,"keys":1,"procs":1,"median_s":%s,"round":%s}\n' \
        "$1" "$2" "$3" "$4" "$5"
}

# Ratios are taken within a round, against the faster variant: 2/100, 4/100, 3/50 us.
{
    row kvstore W1_pushpull_k2 4096 2e-6 1
    row mxnet-capi W1_k2 4096 100e-6 1
    row mxnet-capi-t2 W1_k2 4096 400e-6 1
    row kvstore W1_pushpull_k2 4096 4e-6 2
    row mxnet-capi W1_k2 4096 400e-6 2
    row mxnet-capi-t2 W1_k2 4096 100e-6 2
    row kvstore W1_pushpull_k2 4096 3e-6 3
    row mxnet-capi W1_k2 4096 50e-6 3
    row kvstore W1_k2 262144 10e-6 1
    row mxnet-capi W1_k2 262144 100e-6 1
    # per byte: PyTorch has twice the bytes in the same time
    row kvstore W7_sgdmom 1000 1e-3 1
    row torch-fused W7_sgdmom 2000 1e-3 1
    # two targets, each held against its own peer
    row kvstore W5_latency 4 1e-6 1
    row openmpi W5_latency 4 0.4e-6 1
    row horovod W5_latency 4 1000e-6 1
    row horovod-cycle0.1 W5_latency 4 300e-6 1
    row kvstore W8_startup_first_pushpull 4096 30e-3 1
} >"$work/rows.jsonl"
python3 "$here/compare.py" "$work/rows.jsonl" >"$work/printed" || fail "compare.py failed"
has '0.040 (0.020-0.060)'
has '<= 0.03 x MXNet C API: missed'
has '<= 0.2 x MXNet C API: reached'
has '2.000'
has '<= 1 x PyTorch: missed'
has '<= 2 x Open MPI: missed; <= 0.05 x Horovod: reached'
has '<= 20 ms: missed'

# Wrong usage.
status=0
sh "$here/peers.sh" --rounds 0 >"$work/printed" 2>&1 || status=$?
[ $status -eq 2 ] || fail "--rounds 0 gives $status"
has "takes a number from 1 on, not '0'"
status=0
sh "$here/peers.sh" W9 >"$work/printed" 2>&1 || status=$?
[ $status -eq 2 ] || fail "W9 gives $status"
has "unknown argument 'W9'"

# Two short rounds where no peer is installed.
MXNET_PYTHON=/nonexistent TORCH_PYTHON=/nonexistent KVSTORE_BENCH_QUICK=1 \
    sh "$here/peers.sh" --kvstore "$kvstore" --rounds 2 --out "$work/out.jsonl" W2 \
    >"$work/printed" 2>&1 || fail "peers.sh failed"
has 'mxnet is left out: /nonexistent does not have it'
has '| W2_pushpull_percall_k2 '
[ "$(grep -c '"round":2}$' "$work/out.jsonl")" -eq 8 ] || fail "not 8 rows in round 2"

# The peer without which nobody would notice that it no longer compiles.
"$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I "$root/core/include" \
    -I "$root/core/cli" "$here/peer_mxnet.c"
