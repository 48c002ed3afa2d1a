# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel, and the source archive, with nothing but Python: the package is pure Python and finds
libkvstore where it runs. PEP 517."""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("README.md", "backend.py", "pyproject.toml")


def _read(path):
    with open(os.path.join(HERE, path), "rb") as file:
        return file.read()


def _version():
    return re.search(rb'^__version__ = "(.*)"', _read("kvstore/__init__.py"), re.M).group(1).decode()


def _package():
    return ["kvstore/" + name for name in sorted(os.listdir(os.path.join(HERE, "kvstore")))
            if name.endswith(".py") or name == "py.typed"]


def _metadata():
    return f"""Metadata-Version: 2.1
Name: kvstore
Version: {_version()}
Summary: Keeps the parameters and gradients of a data-parallel training job in step (libkvstore)
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

""".encode() + _read("README.md")


def _add(archive, name, data):
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes each time
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data, zipfile.ZIP_DEFLATED)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Write the wheel; return its name."""
    info = f"kvstore-{_version()}.dist-info"
    files = {path: _read(path) for path in _package()}
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: kvstore\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"kvstore-{_version()}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        for path, data in files.items():
            _add(archive, path, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Write the source archive; return its name."""
    top = f"kvstore-{_version()}"
    with tarfile.open(os.path.join(sdist_directory, top + ".tar.gz"), "w:gz") as archive:
        for path in [*SOURCES, *_package()]:
            archive.add(os.path.join(HERE, path), f"{top}/{path}")
        data = _metadata()
        entry = tarfile.TarInfo(f"{top}/PKG-INFO")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return top + ".tar.gz"
