# SPDX-License-Identifier: Apache-2.0
"""What is installed, and what is wrong with it."""

import json
import os
import shutil
import subprocess
from ctypes import byref, c_void_p
from typing import Any, Dict, List, Union

from ._library import lib
from ._plain import path_of
from .errors import KVStoreStateError, Status, check

_TEXTS = ("name", "version", "summary", "package", "manifest", "library", "reason", "fix")


def plugins() -> List[Dict[str, str]]:
    """Every plugin found, usable or not: ``name``, ``version``, ``summary``, ``package``, ``manifest``,
    ``library``, ``state`` ("ok", "disabled", …), ``reason`` why it can't be used and ``fix``, what mends it.

    >>> import kvstore
    >>> [plugin["state"] for plugin in kvstore.plugins() if plugin["name"] == "local"]
    ['ok']
    """
    listed = c_void_p()
    check(lib.kvs_plugin_list(byref(listed)))
    try:
        found = []
        for i in range(lib.kvs_plugin_list_count(listed)):
            info = lib.kvs_plugin_list_at(listed, i)[0]
            plugin = {name: (getattr(info, name) or b"").decode("utf-8", "replace") for name in _TEXTS}
            plugin["state"] = lib.kvs_plugin_state_text(info.state).decode()
            found.append(plugin)
        return found
    finally:
        lib.kvs_plugin_list_free(listed)


def add_plugin_path(path: Union[str, "os.PathLike[str]"]) -> None:
    """Search a directory of manifests, or one manifest file, before all other places."""
    check(lib.kvs_plugin_path_add(path_of(path, "add_plugin_path")))


def _command() -> str:
    """The command `kvstore`: of the build tree that the library is from, else the installed one."""
    library = os.environ.get("KVSTORE_LIBRARY")
    if library:
        beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(library))), "bin", "kvstore")
        if os.access(beside, os.X_OK):
            return beside
    command = shutil.which("kvstore")
    if command is None:
        raise KVStoreStateError("doctor: the command kvstore is not installed; it is in the package kvstore-tools",
                                Status.ERR_UNAVAILABLE)
    return command


def doctor() -> Any:
    """What ``kvstore doctor --json`` finds: plugins are loaded in child processes, as they may crash."""
    done = subprocess.run([_command(), "doctor", "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise KVStoreStateError(f"doctor: {done.stderr.strip()}", Status.ERR_UNAVAILABLE)
    return json.loads(done.stdout)
