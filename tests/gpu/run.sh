#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - what only hardware can show: correctness, ordering and errors of the CUDA provider and of `nccl` on real
# devices, then what kernels reach of the memory's rate. Under 5 minutes. README.md beside it tells how.
#
# A line for each part, and the whole as a report named by the device. Exit status 0: all passed; 1: something failed;
# 77: not run, and why. Changes no setting of a device.

set -u

usage() {
    cat <<'EOF'
usage: sh tests/gpu/run.sh [--pretend] [--brief] [--built] [BUILD]
       sh tests/gpu/run.sh --pack DIRECTORY [BUILD]
       sh DIRECTORY/run.sh [--pretend] [--brief]

Builds for the device of this machine in BUILD (build-gpu unless given), runs all parts, and writes
a report to tests/gpu/reports/, named by the device.

  --built     take what BUILD has
  --pretend   on the stand-ins for the driver and NCCL: that the parts themselves work; no report
  --brief     without the suites of conformance
  --pack      build, for sm_75, sm_90 and newer ones, and gather all that the parts need in DIRECTORY, for
              a machine with a device and without compilers; its reports are in DIRECTORY/reports
EOF
}

no() {
    echo "gpu: not run: $*"
    exit 77
}

here=$(CDPATH='' cd -- "$(dirname "$0")" && pwd) || exit 2
begun=$(date +%s)
mode=run built='' build='' pack='' brief=''
while [ $# -gt 0 ]; do
    case $1 in
    --pretend) mode=pretend ;;
    --brief) brief=1 ;;
    --built) built=1 ;;
    --pack) mode=pack pack=${2:?--pack needs a directory} && shift ;;
    --help) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    /*) build=$1 ;;
    *) build=$PWD/$1 ;;
    esac
    shift
done
for name in $(env | sed -n 's/^\(\(KVSTORE\|MXNET\|NCCL\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
PATH=$PATH:/usr/local/cuda/bin:/usr/local/nvidia/bin
programs='test_cuda_kernels test_cuda_exchange test_cuda_rows test_cuda_order test_cuda_faults test_nccl_exchange gpu_nccl
    gpu_bandwidth gpu_staging'

# ---- What there is -------------------------------------------------------------------------------

# The device's name, driver and compute capability ("90"), as nvidia-smi has them; "" if it doesn't work.
ask_smi() {
    nvidia-smi --id=0 --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1
}

# Where NCCL is: for the dynamic linker, or in Python's packages, as frameworks bring it.
find_nccl() {
    (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | grep -q 'libnccl\.so\.2 ' && return
    for python in python3 /usr/bin/python3; do
        folder=$($python -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2>/dev/null) || continue
        [ -f "$folder/lib/libnccl.so.2" ] && KVSTORE_NCCL_LIBRARY=$folder/lib/libnccl.so.2 && return
    done
}

# ---- Building and packing ------------------------------------------------------------------------

# ARCHITECTURES in cmake's notation
build_for() {
    command -v nvcc >/dev/null || no "nvcc not found (PATH, /usr/local/cuda/bin)"
    command -v cmake >/dev/null || no "cmake not found"
    make=Unix\ Makefiles
    command -v ninja >/dev/null && make=Ninja
    # shellcheck disable=SC2086 # a list of words
    if ! { cmake -S "$root" -B "$build" -G "$make" -DCMAKE_BUILD_TYPE=Release "-DKVS_CUDA_ARCHITECTURES=$1" &&
        cmake --build "$build" --parallel "$(nproc)" --target kvs-plugins kvstore_cli kvs_cuda_double \
            kvs_nccl_double $programs; } >"$build.log" 2>&1; then
        tail -n 40 "$build.log"
        echo "gpu: did not build: $build.log"
        exit 1
    fi
}

# Libraries that a program or plugin needs but the C and C++ ones, as paths.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
        grep -v -E '^(libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+)\.so' | cut -d' ' -f2
}

pack_up() {
    mkdir -p "$pack/bin" "$pack/tests" "$pack/lib" "$pack/python" "$pack/share/kvstore" && pack=$(cd "$pack" && pwd) || exit 2
    for program in $programs; do
        cp "$build/tests/$program" "$pack/tests/" || exit 1
    done
    cp "$build/bin/kvstore" "$pack/bin/" && cp -R "$build/share/kvstore/plugins.d" "$pack/share/kvstore/" &&
        cp -R "$build/lib/kvstore" "$pack/lib/" && cp -R "$root/sdk/python/kvstore" "$pack/python/" &&
        cp -L "$build/lib/libkvstore.so.0" "$pack/lib/" && mkdir -p "$pack/tests/doubles" &&
        cp -L "$build/tests/doubles/libcuda.so.1" "$build/tests/doubles/libnccl.so.2" "$pack/tests/doubles/" &&
        cp "$root/tests/gpu/run.sh" "$root/tests/gpu/torch_arrays.py" "$pack/" &&
        git -C "$root" rev-parse --short HEAD >"$pack/commit" || exit 1
    for library in $(libraries_of "$pack"/tests/[!d]* "$pack"/bin/kvstore "$pack"/lib/kvstore/plugins/*.so); do
        [ -e "$pack/lib/${library##*/}" ] || cp -L "$library" "$pack/lib/" || exit 1
    done
    strip --strip-debug "$pack"/bin/* "$pack"/tests/[!d]* "$pack"/lib/*.so* "$pack"/lib/kvstore/plugins/*.so
    echo "gpu: packed $(du -sm "$pack" | cut -f1) MiB: $pack"
}

# ---- Parts ---------------------------------------------------------------------------------------

say() {
    echo "$*" | tee -a "$report"
}

elapsed() {
    echo $(($(date +%s) - begun))
}

# NAME LIMIT COMMAND…: one line in the report, and what it said if it failed. All ends before 5 minutes: what would
# have little time is left out.
part() {
    name=$1 limit=$2 part_begun=$(date +%s)
    left=$((290 - $(elapsed)))
    shift 2
    if [ "$left" -lt 20 ]; then
        say "$(printf '%-22s left out: the time is over' "$name")"
        return
    fi
    [ "$limit" -lt "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$work/out" 2>&1
    status=$?
    seconds=$(($(date +%s) - part_begun))
    case $status in
    0) say "$(printf '%-22s passed  %3d s' "$name" "$seconds")" ;;
    77) say "$(printf '%-22s skipped: %s' "$name" "$(tail -n 1 "$work/out" | sed 's/^skipped: //')")" ;;
    *)
        [ "$status" -eq 124 ] && status="$status, its $limit s were over"
        say "$(printf '%-22s FAILED  %3d s, exit status %s' "$name" "$seconds" "$status")"
        grep -v '^kvstore warn\|^passed' "$work/out" | tail -n 60 | tee -a "$report"
        failed=1
        ;;
    esac
}

# A row for each kind of work; MIB of an array, and of all arrays.
bandwidth() {
    if [ "$(elapsed)" -gt 240 ]; then
        say "bandwidth with $1 MiB left out: the time is over"
    elif KVSTORE_GPU_MIB=$1 KVSTORE_GPU_ALL_MIB=$2 timeout -k 5 60 "$tests/gpu_bandwidth" >"$work/out" 2>&1; then
        sed -n '/^work /,/^$/p' "$work/out" | grep -v '^passed' | tee -a "$report"
    else
        say "bandwidth with $1 MiB FAILED"
        tail -n 40 "$work/out" | tee -a "$report"
        failed=1
    fi
}

# The same of ways through pinned memory; MIB of an array.
staging() {
    if KVSTORE_GPU_MIB=$1 timeout -k 5 60 "$tests/gpu_staging" >"$work/out" 2>&1; then
        sed -n '/^through pinned memory /,/^$/p' "$work/out" | grep -v '^passed' | tee -a "$report"
    else
        say "staging with $1 MiB FAILED"
        tail -n 40 "$work/out" | tee -a "$report"
        failed=1
    fi
}

run_parts() {
    [ -n "$brief" ] || part conformance 100 "$kvstore" conformance device --device cuda
    part kernels 60 "$tests/test_cuda_kernels"
    part exchange 100 "$tests/test_cuda_exchange"
    part rows 100 "$tests/test_cuda_rows"
    part order 60 "$tests/test_cuda_order"
    part 'no driver' 20 env -u KVSTORE_TEST_GPU KVSTORE_CUDA_DRIVER=/nonexistent "$tests/test_cuda_faults" \
        without_a_driver_the_reason_is_told
    part fork 20 env KVSTORE_DOUBLE_DEVICES=1 "$tests/test_cuda_faults" \
        a_forked_child_is_told_that_cuda_does_not_survive_that
    part 'nccl alone' 60 "$tests/gpu_nccl"
    if [ -n "$has_nccl" ]; then
        part 'nccl exchange' 60 env KVSTORE_SINGLE=1 "$tests/test_nccl_exchange"
        [ -n "$brief" ] || part 'nccl conformance' 100 env KVSTORE_SINGLE=1 "$kvstore" conformance nccl --device cuda
    else
        say "nccl exchange and conformance skipped: $("$kvstore" info nccl | sed -n 's/^  usable *no: //p')"
    fi
    say ''
    if [ "$mode" = pretend ]; then
        bandwidth 1 4
        staging 5
    else
        for mib in 1 64 512; do
            bandwidth "$mib" 8192
        done
        for mib in 16 256; do
            staging "$mib"
        done
    fi
    say ''
    part 'torch arrays' 60 env PYTHONPATH="$python" "KVSTORE_LIBRARY=$library" python3 -B "$here/torch_arrays.py"
    if [ -z "$brief" ]; then
        part 'dist_sync, 2 workers' 60 "$kvstore" run -w 2 -s 1 -- "$kvstore" conformance dist_sync --device cuda
        part 'horovod, 2 workers' 60 "$kvstore" run -w 2 --backend horovod -- "$kvstore" conformance horovod \
            --device cuda
    fi
    if [ "$mode" = run ] && command -v compute-sanitizer >/dev/null; then
        part memcheck 60 compute-sanitizer --error-exitcode 9 "$tests/test_cuda_exchange" \
            arrays_need_no_more_alignment_than_their_elements
        part 'memcheck rows' 60 compute-sanitizer --error-exitcode 9 "$tests/test_cuda_kernels"
    fi
}

# ---- The whole -----------------------------------------------------------------------------------

if [ -x "$here/bin/kvstore" ]; then
    root=$here place=$here reports=$here/reports commit=$(cat "$here/commit")
    python=$here/python built=1
else
    root=$(CDPATH='' cd -- "$here/../.." && pwd) || exit 2
    build=${build:-$root/build-gpu} reports=$here/reports
    place=$build python=$root/sdk/python
    commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
fi
if [ "$mode" = pack ]; then
    build_for '75;90'
    pack_up
    exit 0
fi
if [ "$mode" = run ]; then
    device=$(ask_smi name)
    [ -n "$device" ] || [ -e /dev/nvidia0 ] || no "no NVIDIA device: nvidia-smi finds none, nor is there /dev/nvidia0"
    [ -n "$device" ] || device=unknown
    find_nccl
    capability=$(ask_smi compute_cap | tr -cd 0-9)
    [ -n "$built" ] || build_for "${capability:-75}"
else
    [ -n "$built" ] || build_for 75
    device='stand-in'
fi
seconds_building=$(elapsed)

kvstore=$place/bin/kvstore tests=$place/tests library=$place/lib/libkvstore.so.0
export KVSTORE_PLUGIN_PATH="$place/share/kvstore/plugins.d"
export LD_LIBRARY_PATH="$place/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/nvidia/lib64" # as containers have it
if [ "$mode" = run ]; then
    export KVSTORE_TEST_GPU=1
    [ -z "${KVSTORE_NCCL_LIBRARY:-}" ] || export KVSTORE_NCCL_LIBRARY
else
    export KVSTORE_CUDA_DRIVER="$tests/doubles/libcuda.so.1" KVSTORE_NCCL_LIBRARY="$tests/doubles/libnccl.so.2"
fi
[ -x "$kvstore" ] || { echo "gpu: there is no $kvstore"; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work" XDG_CONFIG_HOME="$work" XDG_DATA_HOME="$work"
failed=0
report=$work/report
cd "$work" || exit 2

reason=$("$kvstore" info cuda | sed -n 's/^  usable *no: //p')
[ -z "$reason" ] || no "$reason"
has_nccl=$("$kvstore" info nccl 2>/dev/null | grep '^  usable *yes')
{
    echo "device       $device"
    echo "driver       $(ask_smi driver_version)"
    echo "date         $(date -u +%Y-%m-%d)"
    echo "commit       $commit"
    echo
    "$kvstore" info cuda | sed -n '/^on this machine/,$p'
    echo
    "$kvstore" info nccl 2>/dev/null | sed -n '/^on this machine/,/^$/p'
    echo
} >"$report"
cat "$report"
run_parts
say "seconds: build $seconds_building, all $(elapsed)"
if [ "$mode" = run ]; then
    mkdir -p "$reports"
    name=$(printf '%s' "$device" | tr -c 'A-Za-z0-9' _)
    cp "$report" "$reports/$name.txt" && echo "gpu: report: $reports/$name.txt"
fi
exit "$failed"
