#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# safetensors.sh PYTHON VENV TEST - runs TEST by PYTHON if that has the package safetensors, else in a virtual
# environment with it, which is made at the first run. Where that can't be, for want of venv or of a network,
# the test is skipped.
set -eu

python=$1 venv=$2 test=$3

skip() {
    echo "skipped: $*: $(tail -n 1 "$venv.log")"
    rm -rf "$venv"
    exit 77
}

if "$python" -c 'import safetensors' 2>/dev/null; then
    exec "$python" -B "$test"
fi
if ! "$venv/bin/python" -c 'import safetensors' 2>/dev/null; then
    rm -rf "$venv"
    "$python" -m venv "$venv" >"$venv.log" 2>&1 || skip "no virtual environment"
    timeout 30 "$venv/bin/python" -m pip --disable-pip-version-check install --timeout 10 \
        --retries 0 safetensors >"$venv.log" 2>&1 || skip "pip cannot install safetensors"
fi
exec "$venv/bin/python" -B "$test"
