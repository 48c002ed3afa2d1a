#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - set up, build and test everything, in three configurations, with one summary.
#
# Safe to run again, from any directory, without a terminal. A configuration that fails does not
# stop the others. The last line is "N passed, N failed, N skipped"; the exit status is 0 only if
# something ran and nothing failed.

set -u

usage() {
    cat <<'EOF'
usage: sh tests/run.sh [--all] [--only plain|asan|tsan] [--help]

Installs what is missing (Debian packages, as root or by sudo), then builds and tests:
  plain   gcc, Release                 build/        every suite, and the packages
  asan    clang, ASan and UBSan        build-asan/   every suite but those labelled big or nosan
  tsan    gcc, TSan                    build-tsan/   suites labelled concurrent

  --all         also the suites labelled heavy, and PyTorch for the Python suites
  --only NAME   one configuration
  --help        this text

KVSTORE_VECTORS=DIRECTORY makes the golden suites read another directory. Logs: ctest.log and
build.log in each build folder, and packages.log in build/.
EOF
}

say() {
    printf '== %s\n' "$*"
}

packages='gcc g++ libc6-dev binutils cmake ninja-build clang libclang-rt-14-dev python3 python3-venv python3-dev
          libltdl-dev libcjson-dev libzmq3-dev libcunit1-dev libdlpack-dev dataset-fashion-mnist
          dpkg-dev gzip groff-base clojure libjna-java default-jre-headless openmpi-bin libopenmpi-dev iproute2'

# ---- set-up ------------------------------------------------------------------------------------

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "run.sh: not root, and there is no sudo" >&2
        return 1
    fi
}

install_missing() {
    missing=
    if ! command -v dpkg-query >/dev/null; then
        say 'set-up: not a Debian system; the packages it would install are listed in run.sh'
        return 0
    fi
    for package in $packages; do
        is_installed "$package" || missing="$missing $package"
    done
    if [ -z "$missing" ]; then
        say "set-up: everything needed is installed"
        return 0
    fi
    say "set-up: installing$missing"
    # shellcheck disable=SC2086 # a list of words
    as_root apt-get -q update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
            $missing
}

# The Python suites need NumPy, safetensors and ml_dtypes (bfloat16): in an environment of their own,
# build-python. What needs one that can't be had is skipped.
set_up_python() {
    venv=$root/build-python
    python_modules='numpy safetensors ml_dtypes'
    if [ -z "$heavy" ]; then
        python_modules="$python_modules torch"
    fi
    python=
    [ -x "$venv/bin/python3" ] || python3 -m venv "$venv" || return 0
    for module in $python_modules; do
        "$venv/bin/python3" -c "import $module" 2>/dev/null && continue
        say "set-up: installing $module in $venv"
        "$venv/bin/python3" -m pip install --quiet --disable-pip-version-check "$module" ||
            say "set-up: no $module: what needs it is skipped"
    done
    python=-DPython3_EXECUTABLE=$venv/bin/python3
}

# Tests see the build tree's plugins and no setting of this shell.
clean_environment() {
    vectors=${KVSTORE_VECTORS-}
    for name in $(env | sed -n 's/^\(\(KVSTORE\|DMLC\|MXNET\|PS\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
        unset "$name"
    done
    if [ -n "$vectors" ]; then
        export KVSTORE_VECTORS="$vectors"
    fi
    export LC_ALL=C.UTF-8
    export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}"
    export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
    export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1 second_deadlock_stack=1}"
}

# Sanitizers of this age cannot map their shadow where the kernel spreads addresses wider than 28
# bits ("unexpected memory mapping"): there, tests run without address randomisation.
find_runner() {
    runner=
    bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
    if [ "$bits" -gt 28 ]; then
        if setarch "$(uname -m)" -R true 2>/dev/null; then
            runner="setarch $(uname -m) -R"
        else
            say "vm.mmap_rnd_bits is $bits and setarch -R is not allowed here; if a sanitizer" \
                "says \"unexpected memory mapping\": sysctl vm.mmap_rnd_bits=28"
        fi
    fi
}

# ---- one configuration -------------------------------------------------------------------------

now() {
    date +%s
}

minutes() {
    awk -v s="$1" 'BEGIN { printf "%.1f", s / 60 }'
}

# configure DIR COMPILER ARGS…: a new folder gets Ninja and the compiler, an old one keeps its own.
configure() {
    dir=$1
    compiler=$2
    shift 2
    if [ -f "$dir/CMakeCache.txt" ] && cmake -S "$root" -B "$dir" "$@"; then
        return 0
    fi
    if command -v ninja >/dev/null; then
        set -- -G Ninja "$@"
    fi
    cmake --fresh -S "$root" -B "$dir" "-DCMAKE_C_COMPILER=$compiler" "$@"
}

build() {
    configure "$@" && cmake --build "$1" --parallel "$(nproc)"
}

# The figures of ctest's own summary: "N% tests passed, F tests failed out of T", then the tests
# that did not run, "12 - name (Skipped)", which are in T, or "(Disabled)", which are not.
count_results() {
    awk '
        / tests passed, .* failed out of / { total = $NF; failed = $4; skipped = disabled = 0 }
        /^[ \t]*[0-9]+ - .*\(Skipped\)$/ { skipped++ }
        /^[ \t]*[0-9]+ - .*\(Disabled\)$/ { disabled++ }
        END { printf "%d %d %d\n", total - failed - skipped, failed, skipped + disabled }
    ' "$1"
}

# Each failed test of a log of ctest again, with the end of what it said: the whole log is long.
show_failures() {
    awk -v most=30 '
        function flush(i) {
            for (i = n > most ? n - most + 1 : 1; i <= n; i++) print "    " lines[i]
            shown = n = 0
        }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / || /^ +Start +[0-9]+: / || / tests passed, / { flush() }
        shown { lines[++n] = $0 }
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*\*\*\*/ && !/\*\*\*(Skipped|Not Run)/ { print; shown = 1 }
        END { flush() }
    ' "$1"
}

# What the suites labelled packages install. Where there are no tools for it, they are skipped.
build_packages() {
    if ! command -v dpkg-shlibdeps >/dev/null; then
        say "$name: no packages: dpkg-shlibdeps not found"
        return 0
    fi
    say "$name: building packages in $dir/packages"
    if ! cmake --build "$dir" --target packages >"$dir/packages.log" 2>&1; then
        tail -n 40 "$dir/packages.log"
        return 1
    fi
}

# run NAME TITLE DIR COMPILER CTEST_SELECTION CMAKE_ARGS…
run() {
    name=$1 title=$2 dir=$root/$3 compiler=$4 selection=$5
    shift 5
    if [ -n "$only" ] && [ "$only" != "$name" ]; then
        return
    fi
    mkdir -p "$dir"
    passed=0 failed=0 skipped=0 test_seconds=0 note=

    say "$name: building ($title) in $dir"
    start=$(now)
    { build "$dir" "$compiler" "$@" && echo ok >"$dir/build.ok"; } >"$dir/build.log" 2>&1 \
        || rm -f "$dir/build.ok"
    build_seconds=$(($(now) - start))
    if [ -f "$dir/build.ok" ]; then
        rm -f "$dir/build.ok"
        no_packages=0
        if [ "$name" = plain ]; then
            build_packages || no_packages=1
            build_seconds=$(($(now) - start))
        fi
        say "$name: testing"
        start=$(now)
        # shellcheck disable=SC2086 # words
        { $runner_here ctest --test-dir "$dir" -j2 --timeout 120 --output-on-failure \
            --no-tests=error $selection; echo "$?" >"$dir/ctest.status"; } 2>&1 |
            tee "$dir/ctest.log"
        test_seconds=$(($(now) - start))
        # shellcheck disable=SC2046 # three numbers
        set -- $(count_results "$dir/ctest.log")
        passed=$1 failed=$2 skipped=$3
        if [ "$failed" -gt 0 ]; then
            failures="$failures
$name:
$(show_failures "$dir/ctest.log")
"
        fi
        if [ "$(cat "$dir/ctest.status")" -ne 0 ] && [ "$failed" -eq 0 ]; then
            failed=1 note="  ctest failed"
        fi
        if [ "$no_packages" -ne 0 ]; then
            failed=$((failed + 1)) note="$note  packages did not build: $dir/packages.log"
        fi
    else
        tail -n 60 "$dir/build.log"
        failed=1 note="  did not build: $dir/build.log"
    fi

    all_passed=$((all_passed + passed))
    all_failed=$((all_failed + failed))
    all_skipped=$((all_skipped + skipped))
    report="$report$(printf '%-7s%9s%9s%8d%8d%8d%8d%s' "$name" "$(minutes $build_seconds)" \
        "$(minutes $test_seconds)" $((passed + failed + skipped)) "$passed" "$failed" "$skipped" \
        "$note")
"
}

# ---- main --------------------------------------------------------------------------------------

only=
heavy='|heavy'
while [ $# -gt 0 ]; do
    case $1 in
        --all) heavy= ;;
        --only)
            shift
            only=${1-}
            ;;
        --only=*) only=${1#--only=} ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            echo "run.sh: unknown argument '$1'; see --help" >&2
            exit 2
            ;;
    esac
    [ $# -gt 0 ] && shift
done
case $only in
    '' | plain | asan | tsan) ;;
    *)
        echo "run.sh: --only takes plain, asan or tsan, not '$only'" >&2
        exit 2
        ;;
esac

exec </dev/null
root=$(CDPATH='' cd -- "$(dirname "$0")/.." && pwd) || exit 2
all_passed=0 all_failed=0 all_skipped=0 report= failures=
begun=$(now)

install_missing || {
    echo "run.sh: cannot install what is needed; install it and run again" >&2
    exit 2
}
set_up_python
setup_seconds=$(($(now) - begun))
clean_environment
find_runner

runner_here=
run plain 'gcc, Release' build gcc "-LE ^(none$heavy)\$" -DCMAKE_BUILD_TYPE=Release -DKVS_SANITIZE= \
    ${python:+"$python"}
runner_here=$runner
# With assertions, and fast enough: neither Debug nor RelWithDebInfo is both by itself.
set -- -DCMAKE_BUILD_TYPE=RelWithDebInfo '-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g'
run asan 'clang, ASan and UBSan' build-asan clang "-LE ^(big|nosan$heavy)\$" "$@" \
    -DKVS_SANITIZE=address,undefined
# gcc's instrumentation hides initialisations from its own -Wmaybe-uninitialized.
run tsan 'gcc, TSan' build-tsan gcc "-L ^concurrent\$ -LE ^(nosan$heavy)\$" "$@" \
    -DKVS_SANITIZE=thread -DCMAKE_C_FLAGS=-Wno-error=maybe-uninitialized

[ -z "$failures" ] || printf '\n== what failed\n%s' "$failures"
printf '\n%-7s%9s%9s%8s%8s%8s%8s\n' '' 'build' 'tests' 'suites' 'passed' 'failed' 'skipped'
printf '%s' "$report"
printf 'minutes: set-up %s, all %s\n' "$(minutes $setup_seconds)" \
    "$(minutes $(($(now) - begun)))"
printf '%d passed, %d failed, %d skipped\n' "$all_passed" "$all_failed" "$all_skipped"
[ "$all_failed" -eq 0 ] && [ "$all_passed" -gt 0 ]
