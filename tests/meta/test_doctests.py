"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib

import pytest
from tests.meta.tree import package_modules

# Compiled modules keep no docstrings to collect; their sources are run by the interpreted leg.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", package_modules())
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0
