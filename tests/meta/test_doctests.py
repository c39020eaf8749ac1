"""Every example in a docstring runs and gives what it says."""

from __future__ import annotations

import doctest
import importlib
import os

import pytest
from tests.meta.tree import package_modules

from elea.pure import hot_modules

# Compiled modules keep no docstrings to collect; their sources are run by the interpreted leg.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


# With ELEA_PURE set there is another run, of the compiled build, that has all the others.
NAMES = hot_modules() if "ELEA_PURE" in os.environ else package_modules()
NAMES = [name for name in NAMES if name != "elea.as_zenoh"]  # it would replace `zenoh` here, too


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=FLAGS).failed == 0
