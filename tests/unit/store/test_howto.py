"""The volume of docs/howto/write-a-storage.md keeps the laws."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from elea.store.backend import StorageConfig, VolumeConfig
from elea.store.testing import LAWS, Law

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "write-a-storage.md"


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    code = re.findall(r"^```python\n(.+?)^```", PAGE.read_text("utf-8"), re.M | re.S)[0]
    path = tmp_path / "shelf.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("shelf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law, module: ModuleType, tmp_path: Path) -> None:
    volume = module.ShelfVolume(VolumeConfig("shelf", "shelf", {"directory": str(tmp_path)}))
    law(lambda: volume.open(StorageConfig("demo", "**", "shelf")))
