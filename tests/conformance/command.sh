#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# command.sh KVSTORE - what `kvstore conformance` prints and how it exits.
set -u
kvstore=$1
n_failed=0

fail() {
    echo "FAILED: $*"
    n_failed=$((n_failed + 1))
}

# want STATUS ARGUMENT...: leaves the output in $out and the errors in $err.
err_file=$(mktemp)
trap 'rm -f "$err_file"' EXIT
want() {
    status=$1
    shift
    out=$("$kvstore" conformance "$@" 2>"$err_file")
    got=$?
    err=$(cat "$err_file")
    [ "$got" -eq "$status" ] || fail "conformance $*: exit $got, want $status: $err"
}

want 0 teststore
last=$(printf '%s\n' "$out" | tail -n 1)
pattern='^conformance teststore: [0-9]+ cases, [0-9]+ passed, 0 failed, [0-9]+ not applicable \(cpu\)$'
printf '%s\n' "$last" | grep -Eq "$pattern" || fail "last line: $last"

want 0 --list
n_rules=$(printf '%s\n' "$out" | wc -l)
n_wrong=$(printf '%s\n' "$out" | grep -Evc '^[a-z]+\.[a-z0-9_]+ +[^ ].*\.$')
[ "$n_rules" -ge 100 ] || fail "--list: $n_rules rules"
[ "$n_wrong" -eq 0 ] || fail "--list: $n_wrong lines without id and sentence"

want 0 teststore --only pushpull.sum --device cpu
[ "$out" = "passed          pushpull.sum
conformance teststore: 1 cases, 1 passed, 0 failed, 0 not applicable (cpu)" ] ||
    fail "--only: $out"

want 2
want 2 teststore local
want 2 teststore --device gpu
want 2 teststore --bogus
want 1 no_such_backend
case $err in *no_such_backend*) ;; *) fail "unknown backend: $err" ;; esac
want 1 teststore --only no.such_rule

if command -v python3 >/dev/null; then
    want 0 teststore --json
    printf '%s\n' "$out" | python3 -c '
import json, sys
report = json.load(sys.stdin)
verdicts = [result["verdict"] for result in report["results"]]
assert report["backend"] == "teststore" and report["devices"] == "cpu"
assert report["passed"] == report["cases"] == verdicts.count("passed") and report["failed"] == 0
assert report["not_applicable"] == verdicts.count("not applicable")
' || fail "--json"
    want 0 --list --json
    printf '%s\n' "$out" | python3 -c '
import json, sys
assert all(rule["id"] and rule["rule"] for rule in json.load(sys.stdin))
' || fail "--list --json"
fi
exit $((n_failed > 0))
