#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# without_device.sh RUN - tests/gpu/run.sh says in one line that there is no device, before it builds anything.
[ ! -e /dev/nvidia0 ] || { echo 'skipped: there is a device here'; exit 77; }
out=$(sh "$1" /nonexistent/build) && exit 1
[ $? -eq 77 ] && [ "$out" = 'gpu: not run: no NVIDIA device: nvidia-smi finds none, nor is there /dev/nvidia0' ]
