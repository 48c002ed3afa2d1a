# SPDX-License-Identifier: Apache-2.0
"""The examples in the package's own words."""
import doctest
import importlib
import pkgutil
import unittest

import kvstore
from support import main


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
