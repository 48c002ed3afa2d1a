# SPDX-License-Identifier: Apache-2.0
"""check_list.py LIST_JSON PREFIX NAME… - `kvstore list --json` shows each plugin, usable, from there."""
import json
import os
import sys

path, prefix, names = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3:]
with open(path, encoding="utf-8") as file:
    text = file.read()
plugins = json.loads(text)
if isinstance(plugins, dict):
    plugins = plugins["plugins"]
by_name = {plugin["name"]: plugin for plugin in plugins}
failed = False
for name in names:
    plugin = by_name.get(name)
    if plugin is None or plugin["state"] != "ok":
        print(f"{name} is not listed as ok in:\n{text}")
        failed = True
    elif not os.path.realpath(plugin["manifest"]).startswith(prefix + os.sep):
        print(f"{name} comes from {plugin['manifest']}, not from {prefix}")
        failed = True
print(f"{len(plugins)} plugins listed")
sys.exit(failed)
