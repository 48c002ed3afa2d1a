#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - from a fresh Debian 12 to a trained classifier: installs what is missing, builds into
# build/ at the top of the repository, runs kvstore-demo with the options given to this script.
# Works from any directory, without a terminal, and again after itself.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd -P)
build=$top/build
started=$(date +%s)

step() {
    printf '== %s\n' "$*"
}

fail() {
    printf 'run.sh: %s\n' "$*" >&2
    exit 1
}

# need_command COMMAND PACKAGE, need_package PACKAGE: add PACKAGE to $missing if it is not there.
need_command() {
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need_package() {
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
    "install ok installed") ;;
    *) missing="$missing $1" ;;
    esac
}

find_missing() {
    missing=
    need_command cmake cmake
    need_command make make
    need_command cc gcc
    if ! command -v dpkg-query >/dev/null 2>&1; then
        step "no Debian: ltdl, cJSON, ZeroMQ and the data set are taken to be installed"
        return
    fi
    need_package libc6-dev
    need_package libltdl-dev
    need_package libcjson-dev
    need_package libzmq3-dev
    case " $* " in
    *" --data"*) ;; # the user has the images or texts elsewhere
    *" --task sparse "* | *" --task=sparse "*) need_package fortunes ;;
    *) need_package dataset-fashion-mnist ;;
    esac
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# shellcheck disable=SC2086 # $missing is a list
install_missing() {
    by_hand="as root, run: apt-get update && apt-get install$missing"
    command -v apt-get >/dev/null 2>&1 || fail "missing:$missing (and there is no apt-get)"
    step "installing with apt:$missing"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail "not root, and there is no sudo; $by_hand"
        step "not root: apt is run by sudo, which may ask for your password"
        sudo true || fail "sudo does not work here; $by_hand"
    fi
    as_root apt-get -q update || step "apt-get update failed: trying with the lists that are there"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=120 install $missing </dev/null || fail "apt failed; $by_hand"
}

# lacks_gpus OPTION...: whether the options ask for GPUs, and the build is without what serves them.
lacks_gpus() {
    case " $* " in
    *" nccl "* | *"=nccl "*) plugin=nccl ;;
    *" cuda "* | *"=cuda "*) plugin=cuda ;;
    *) return 1 ;;
    esac
    [ ! -f "$build/share/kvstore/plugins.d/$plugin.json" ]
}

configure_and_build() {
    # again after something was installed, which may be what a backend was left out for
    if [ -n "$missing" ] || lacks_gpus "$@" ||
        { [ ! -f "$build/Makefile" ] && [ ! -f "$build/build.ninja" ]; }; then
        step "configuring $build"
        cmake -S "$top" -B "$build" || fail "cmake cannot configure the build: its words are above"
    fi
    step "building kvstore-demo, kvstore, the plugins, and what else is installed, in $build"
    cmake --build "$build" -j "$(nproc)" --target kvstore-demo kvs-installed ||
        fail "the build failed: its words are above"
    if lacks_gpus "$@"; then
        step "built without $plugin: what was not found stands above, as \"left out\""
    fi
}

find_missing "$@"
if [ -n "$missing" ]; then
    install_missing
fi
configure_and_build "$@"
step "running kvstore-demo${*:+ $*}"
status=0
"$build/bin/kvstore-demo" "$@" || status=$?
elapsed=$(($(date +%s) - started))
if [ "$status" -eq 0 ]; then
    step "done: $elapsed s altogether, with building"
else
    step "kvstore-demo failed with exit status $status after $elapsed s"
fi
exit "$status"
