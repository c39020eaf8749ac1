"""CRC-32 as zlib has it: by ISA-L if that is installed, ten times as fast, with the same values."""

from __future__ import annotations

from zlib import crc32 as _zlib_crc32

try:
    from isal.isal_zlib import crc32 as crc32
except ImportError:
    crc32 = _zlib_crc32
