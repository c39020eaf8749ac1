"""Replace a file in one step: write aside, sync, rename, sync the directory.

After any crash the file is the old one or the new one, whole. Files of a log have a disk of their
own (`elea.store.log.disk`), which tests make fail; all others come through here.

    with replacing(path) as partial:
        partial.write_bytes(...)
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PARTIAL: Final = ".partial"  # the name of what is not whole ends so, and begins with a dot
_READ_WRITE: Final = 0o666  # less what the process does not allow


@contextmanager
def replacing(
    path: Path, *, durable: bool = True, shared: bool = False, mode: int | None = None
) -> Iterator[Path]:
    """Give a path to write to; what is there at the end takes the place of `path`.

    If the block raises, `path` stays as it was and nothing is left beside it.

    Args:
        durable: The new file survives a loss of power once this returns. Else it may be the old one
            then, or empty: for what can be made again.
        shared: Other processes may replace the file at the same time; the last one wins.
        mode: The permissions of the new file, from its first byte on; else the usual ones.
    """
    token = f".{secrets.token_hex(4)}" if shared else ""
    partial = path.with_name(f".{path.name}{token}{PARTIAL}")
    if mode is not None:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & _READ_WRITE))
    try:
        yield partial
        if mode is not None:
            partial.chmod(mode)
        if durable:
            sync(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def replace_text(
    path: Path,
    text: str,
    *,
    durable: bool = True,
    shared: bool = False,
    mode: int | None = None,
) -> None:
    """Replace the text of a file; arguments as of `replacing`."""
    with replacing(path, durable=durable, shared=shared, mode=mode) as partial:
        partial.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable."""
    is_windows = os.name == "nt"
    if is_windows and path.is_dir():
        return  # directories cannot be synced there
    handle = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
