"""Who of this process's descendants listens where others than this host could come in."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path

LISTENING = "0A"


def foreign_listeners() -> list[str]:
    """Listening sockets of descendants whose address is not of loopback."""
    owned = {inode for pid in _descendants(os.getpid()) for inode in _sockets(pid)}
    return [
        f"{address} port {port}"
        for inode, address, port in _listening()
        if inode in owned and not _is_loopback(address)
    ]


def _is_loopback(address: str) -> bool:
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def _sockets(pid: int) -> list[str]:
    found = []
    try:
        for path in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(path)
            if target.startswith("socket:["):
                found.append(target.removeprefix("socket:[").removesuffix("]"))
    except OSError:  # it ended
        pass
    return found


def _listening() -> list[tuple[str, str, int]]:
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] != LISTENING:
                continue
            host, _, port = fields[1].partition(":")
            words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
            found.append((fields[9], str(ip_address(b"".join(words))), int(port, 16)))
    return found
