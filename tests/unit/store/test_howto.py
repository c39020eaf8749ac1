"""The volume of docs/howto/write-a-storage.md keeps the laws."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from elea.errors import StoreError
from elea.store import volumes
from elea.store.backend import StorageConfig, VolumeConfig
from elea.store.backends.memory import MemoryVolume
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


def test_it_is_found_where_it_is_installed(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shelf-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[elea.storages]\nshelf = shelf:ShelfVolume\nmemory = shelf:ShelfVolume\n"
        "gone = no_such_module:Volume\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "shelf", module)
    assert volumes.load(volumes.find("shelf")) is module.ShelfVolume
    assert volumes.load(volumes.find("memory")) is MemoryVolume  # which nobody replaces
    with pytest.raises(StoreError, match="the volume gone of no_such_module:Volume cannot be used"):
        volumes.load(volumes.find("gone"))
    with pytest.raises(StoreError, match="there are fs, gone, log, memory, shelf, sqlite"):
        volumes.find("other")
