#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - what only hardware can show: correctness, ordering and errors of the CUDA provider on real
# devices, then what its kernels reach of the memory's rate. Under 5 minutes; writes a report to
# tests/gpu/reports/, named by the device. Without nvcc or a device it says why not, with exit status 77.
#
# usage: sh tests/gpu/run.sh [BUILD], a build folder of its own, build-gpu unless given.

set -u
root=$(CDPATH='' cd -- "$(dirname "$0")/../.." && pwd) || exit 2
build=${1:-$root/build-gpu}
begun=$(date +%s)

no() {
    echo "gpu: not run: $*"
    exit 77
}

for name in $(env | sed -n 's/^\(\(KVSTORE\|MXNET\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || no "nvcc not found (PATH, /usr/local/cuda/bin)"
command -v nvidia-smi >/dev/null || no "nvidia-smi not found: no NVIDIA driver here"
device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
[ -n "$device" ] || no "nvidia-smi finds no device"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)

make=Unix\ Makefiles
command -v ninja >/dev/null && make=Ninja
cmake -S "$root" -B "$build" -G "$make" -DCMAKE_BUILD_TYPE=Release \
    "-DKVS_CUDA_ARCHITECTURES=$capability" >"$build.log" 2>&1 &&
    cmake --build "$build" --parallel --target kvs-plugins kvstore_cli test_cuda_exchange \
        test_cuda_order test_cuda_faults gpu_bandwidth >>"$build.log" 2>&1 || {
    tail -n 40 "$build.log"
    echo "gpu: did not build: $build.log"
    exit 1
}
built=$(date +%s)

export KVSTORE_TEST_GPU=1
export KVSTORE_PLUGIN_PATH="$build/share/kvstore/plugins.d"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work" XDG_CONFIG_HOME="$work" XDG_DATA_HOME="$work"
failed=0
report="$work/report"

part() { # NAME COMMAND…: one line in the report, what it said if it failed
    name=$1
    shift
    if timeout 120 "$@" >"$work/out" 2>&1; then
        printf '%-12s passed\n' "$name" | tee -a "$report"
    else
        printf '%-12s FAILED (exit status %d)\n' "$name" "$?" | tee -a "$report"
        tail -n 60 "$work/out" | tee -a "$report"
        failed=1
    fi
}

{
    echo "device       $device, $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)"
    echo "date         $(date -u +%Y-%m-%d)"
    echo "commit       $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)"
    echo
    "$build/bin/kvstore" info cuda | sed -n '/^devices/,$p'
    echo
} | tee "$report"
cd "$work" || exit 2
part conformance "$build/bin/kvstore" conformance device --device cuda
part exchange "$build/tests/test_cuda_exchange"
part order "$build/tests/test_cuda_order"
part missing env KVSTORE_CUDA_DRIVER=/nonexistent "$build/tests/test_cuda_faults" \
    without_a_driver_the_reason_is_told
part fork "$build/tests/test_cuda_faults" a_forked_child_is_told_that_cuda_does_not_survive_that
echo | tee -a "$report"
for mib in 64 256 1024; do
    KVSTORE_GPU_MIB=$mib KVSTORE_GPU_ALL_MIB=16384 timeout 100 "$build/tests/gpu_bandwidth" >"$work/out" 2>&1 ||
        failed=1
    sed -n '/^work /,/^$/p' "$work/out" | tee -a "$report"
done
printf 'seconds: build %d, all %d\n' $((built - begun)) $(($(date +%s) - begun)) | tee -a "$report"

name=$(printf '%s' "$device" | tr -c 'A-Za-z0-9' _)
cp "$report" "$root/tests/gpu/reports/$name.txt" && echo "gpu: report: tests/gpu/reports/$name.txt"
exit "$failed"
