#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# peers.sh - `kvstore bench` and the peers that are installed, by turns, and the ratios of their medians.
#
# README.md says how to read them. Exit status 1 if a program failed; a peer that is not there is
# told and left out.
set -u

usage() {
    cat <<'EOF'
usage: sh tests/bench/peers.sh [--rounds N] [--out FILE] [--kvstore PROGRAM] [--install] [WORKLOAD...]

Runs each workload (default: W1 W2 W3 W4 W5 W7 W8) on kvstore, MXNet, PyTorch, Open MPI and Horovod by
turns, N times (3), and prints kvstore's times over theirs. Open MPI (openmpi-bin, libopenmpi-dev) is for
W5, as is Horovod, which is used where TORCH_PYTHON has it; README.md says how to build it.

  --rounds N         how often
  --out FILE         keep the rows there, as lines of JSON (else in a temporary file)
  --kvstore PROGRAM  default: build/bin/kvstore
  --install          first make build/peers/mxnet and build/peers/torch, virtual environments with
                     the peers from PyPI; takes 6 GB. MXNet 1.9.1 needs Python 3.11 or older

MXNET_PYTHON and TORCH_PYTHON name the interpreters that have them; default: those of --install.
KVSTORE_BENCH_QUICK=1 makes a short run that shows that it works and measures nothing.
EOF
}

say() {
    printf '== %s\n' "$*" >&2
}

here=$(cd "$(dirname "$0")" && pwd) || exit 2
root=$(cd "$here/../.." && pwd) || exit 2
rounds=3 out='' kvstore=$root/build/bin/kvstore install='' workloads=''

while [ $# -gt 0 ]; do
    case $1 in
        --rounds | --out | --kvstore)
            if [ $# -lt 2 ]; then
                echo "peers.sh: $1 needs a value; see --help" >&2
                exit 2
            fi
            case $1 in
                --rounds) rounds=$2 ;;
                --out) out=$2 ;;
                --kvstore) kvstore=$2 ;;
            esac
            shift
            ;;
        --install) install=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        W1 | W2 | W3 | W4 | W5 | W7 | W8) workloads="$workloads $1" ;;
        *)
            echo "peers.sh: unknown argument '$1'; see --help" >&2
            exit 2
            ;;
    esac
    shift
done
case $rounds in
    *[!0-9]* | '' | 0)
        echo "peers.sh: --rounds takes a number from 1 on, not '$rounds'" >&2
        exit 2
        ;;
esac
workloads=${workloads:- W1 W2 W3 W4 W5 W7 W8}
if [ ! -x "$kvstore" ]; then
    echo "peers.sh: no program $kvstore: build it, or name it with --kvstore" >&2
    exit 2
fi

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
out=${out:-$work/rows.jsonl}
: >"$out" || exit 2

# ---- the peers ---------------------------------------------------------------------------------

install_peers() {
    python3 -m venv "$root/build/peers/mxnet" &&
        "$root/build/peers/mxnet/bin/pip" install -q 'numpy<1.24' 'mxnet==1.9.1' &&
        python3 -m venv "$root/build/peers/torch" &&
        "$root/build/peers/torch/bin/pip" install -q numpy torch
}

# find_peer NAME PYTHON: whether that Python has it.
find_peer() {
    "$2" -c "import $1" >/dev/null 2>&1 || {
        say "$1 is left out: $2 does not have it"
        return 1
    }
}

if [ -n "$install" ]; then
    install_peers || exit 1
fi
mxnet_python=${MXNET_PYTHON:-$root/build/peers/mxnet/bin/python}
torch_python=${TORCH_PYTHON:-$root/build/peers/torch/bin/python}
find_peer mxnet "$mxnet_python" || mxnet_python=
find_peer torch "$torch_python" || torch_python=
horovod=
if [ -n "$torch_python" ] && command -v mpirun >/dev/null 2>&1 &&
    find_peer horovod.torch "$torch_python"; then
    horovod=yes
fi
export PYTHONDONTWRITEBYTECODE=1

mxnet_library=
if [ -n "$mxnet_python" ]; then
    mxnet_library=$("$mxnet_python" -c \
        'import mxnet, os; print(os.path.join(os.path.dirname(mxnet.__file__), "libmxnet.so"))')
    cli=$root/core/cli
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -I "$root/core/include" -I "$cli" -o "$work/peer_mxnet" \
        "$here/peer_mxnet.c" "$cli/bench_sample.c" "$cli/bench_rows.c" "$cli/bench_resnet50.c" \
        -ldl || exit 1
fi

mpi=
if command -v mpicc >/dev/null 2>&1 && command -v mpirun >/dev/null 2>&1; then
    cli=$root/core/cli
    mpicc -std=c11 -D_GNU_SOURCE -O2 -I "$root/core/include" -I "$cli" -o "$work/peer_mpi" \
        "$here/peer_mpi.c" "$cli/bench_sample.c" "$cli/bench_rows.c" "$cli/bench_resnet50.c" || exit 1
    mpi=$work/peer_mpi
else
    say "Open MPI is left out: no mpicc and mpirun"
fi

# ---- rounds ------------------------------------------------------------------------------------

failed=0

# add COMMAND...: its rows, with the number of the round.
add() {
    "$@" >"$work/one" || {
        say "failed: $*"
        failed=1
    }
    sed "s/}\$/,\"round\":$round}/" "$work/one" >>"$out"
}

run_mxnet() {
    case $1 in
        W1 | W2 | W3)
            add "$work/peer_mxnet" "$mxnet_library" mxnet-capi "$1"
            add env MXNET_CPU_WORKER_NTHREADS=2 "$work/peer_mxnet" "$mxnet_library" mxnet-capi-t2 "$1"
            add "$mxnet_python" "$here/peer_mxnet.py" mxnet "$1"
            add env MXNET_CPU_WORKER_NTHREADS=2 "$mxnet_python" "$here/peer_mxnet.py" mxnet-t2 "$1"
            ;;
        W7)
            for n in 1 2; do
                add env OMP_NUM_THREADS=$n "$mxnet_python" "$here/peer_mxnet.py" mxnet W7
            done
            ;;
        W4)
            add "$mxnet_python" "$here/peer_mxnet.py" mxnet W4
            add env MXNET_CPU_WORKER_NTHREADS=2 "$mxnet_python" "$here/peer_mxnet.py" mxnet-t2 W4
            ;;
        W8) add "$mxnet_python" "$here/peer_mxnet.py" mxnet W8 ;;
    esac
}

run_torch() {
    case $1 in
        W5)
            for n in 2 4; do
                add "$torch_python" "$here/peer_gloo.py" $n
            done
            ;;
        W7)
            for n in 1 2; do
                add "$torch_python" "$here/peer_torch.py" $n
            done
            ;;
    esac
}

run_mpi() {
    if [ "$1" = W5 ]; then
        for n in 2 4; do
            add mpirun --allow-run-as-root --oversubscribe -n $n "$mpi"
        done
    fi
}

run_horovod() {
    if [ "$1" = W5 ]; then
        for n in 2 4; do
            add mpirun --allow-run-as-root --oversubscribe -n $n \
                "$torch_python" "$here/peer_horovod.py" horovod
            add env HOROVOD_CYCLE_TIME=0.1 mpirun --allow-run-as-root --oversubscribe -n $n \
                "$torch_python" "$here/peer_horovod.py" horovod-cycle0.1
        done
    fi
}

# W4 without shared memory; its rows are named W4_tcp_...
run_w4_by_sockets() {
    KVSTORE_SHM=0 "$kvstore" bench --json W4 | sed 's/"W4_/"W4_tcp_/'
}

run_kvstore() {
    case $1 in
        W5) add "$kvstore" bench --json W5 ;;
        W4)
            add "$kvstore" bench --json W4
            add run_w4_by_sockets
            ;;
        W7)
            for n in 1 2; do
                add env KVSTORE_THREADS=$n "$kvstore" bench --json W7
            done
            ;;
        *) add "$kvstore" bench --json --pushpull "$1" ;;
    esac
}

round=1
while [ "$round" -le "$rounds" ]; do
    for workload in $workloads; do
        say "round $round of $rounds: $workload"
        run_kvstore "$workload"
        [ -z "$mxnet_python" ] || run_mxnet "$workload"
        [ -z "$torch_python" ] || run_torch "$workload"
        [ -z "$mpi" ] || run_mpi "$workload"
        [ -z "$horovod" ] || run_horovod "$workload"
    done
    round=$((round + 1))
done
python3 "$here/compare.py" "$out" || failed=1
exit $failed
