#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run-tutorial.sh - set up, build the library if none is given, and run the tutorial.
#
# Safe to run again, from any directory, without a terminal. KVSTORE_LIBRARY=PATH names a library that
# is built already. The last line says how it went; the exit status is 0 only if all values were right.

set -u

usage() {
    cat <<'USAGE'
usage: sh sdk/clojure/run-tutorial.sh [--no-install] [SCRIPT.clj ARGS...]

Installs Debian's clojure and libjna-java where they are missing, builds libkvstore in build/
unless KVSTORE_LIBRARY names one, and runs tutorial.clj, or another script with its arguments.

  --no-install  where something is missing, say so and exit 77
USAGE
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "run-tutorial.sh: not root, and there is no sudo" >&2
        return 1
    fi
}

jars=/usr/share/java

is_set_up() {
    command -v java >/dev/null && [ -e $jars/clojure.jar ] && [ -e $jars/jna.jar ]
}

fail() {
    echo "run-tutorial.sh: $*" >&2
    exit 2
}

install=1
case ${1-} in
    -h | --help)
        usage
        exit 0
        ;;
    --no-install)
        install=0
        shift
        ;;
esac
exec </dev/null
here=$(CDPATH='' cd -- "$(dirname "$0")" && pwd) || exit 2
root=$(dirname "$(dirname "$here")")

if ! is_set_up; then
    if [ $install -eq 0 ]; then
        echo "skipped: Debian's clojure and libjna-java are not installed"
        exit 77
    fi
    echo "== installing clojure and libjna-java"
    { as_root apt-get -q update &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
            clojure libjna-java default-jre-headless; } >/dev/null ||
        fail "can't install clojure and libjna-java"
fi

if [ -z "${KVSTORE_LIBRARY-}" ]; then
    echo "== building libkvstore in $root/build"
    mkdir -p "$root/build"
    { { [ -f "$root/build/CMakeCache.txt" ] || cmake -S "$root" -B "$root/build" -DCMAKE_BUILD_TYPE=Release; } &&
        cmake --build "$root/build" --parallel "$(nproc)" --target kvstore kvs_local kvs_optimizers; } >"$root/build/tutorial.log" 2>&1 ||
        fail "the library doesn't build; see $root/build/tutorial.log (sh tests/run.sh installs what it needs)"
    export KVSTORE_LIBRARY="$root/build/lib/libkvstore.so"
fi

[ $# -gt 0 ] || set -- "$here/tutorial.clj"
echo "== running $1 with $KVSTORE_LIBRARY"
exec java -XX:+UseSerialGC -cp "$jars/clojure.jar:$jars/jna.jar:$here/src" clojure.main "$@"
