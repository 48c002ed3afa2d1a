# SPDX-License-Identifier: Apache-2.0
"""The examples in the package's own words, and those of the READMEs."""
import contextlib
import doctest
import importlib
import io
import os
import pkgutil
import re
import unittest

import kvstore
from support import main


class Readme(unittest.TestCase):
    def test_its_example_prints_what_it_says(self):
        for folder in ("", "sdk/python"):
            with open(os.path.join(os.environ["KVS_SOURCE"], folder, "README.md"), encoding="utf-8") as file:
                example = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(example, "README.md", "exec"), {})
            self.assertEqual(said.getvalue(), "[[-0.2 -0.2]\n [-0.2 -0.2]]\n")


def load_tests(_loader, tests, _pattern):
    modules = [kvstore] + [importlib.import_module(found.name)
                           for found in pkgutil.iter_modules(kvstore.__path__, "kvstore.")
                           if found.name != "kvstore.__main__"]
    for module in modules:
        if doctest.DocTestFinder().find(module):
            tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    main()
