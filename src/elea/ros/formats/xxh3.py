"""XXH3 with 128 bits and seed 0, which makes gids of tokens (R2-203).

Written after the published description of the algorithm; tests hold it against the reference.
"""

from __future__ import annotations

import struct
from typing import Final

_M64: Final = (1 << 64) - 1
_M32: Final = (1 << 32) - 1
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_STRIPE_LEN: Final = 64
_STRIPES_COUNT: Final = 16  # of a block, by the length of the secret


def xxh3_128(data: bytes) -> bytes:
    """The hash as gids have it: low 64 bits, then high 64 bits, each little endian."""
    length = len(data)
    if length <= 16:
        low, high = _short(data)
    elif length <= 128:
        low, high = _medium(data)
    elif length <= 240:
        low, high = _longer(data)
    else:
        low, high = _long(data)
    return struct.pack("<QQ", low, high)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _half(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product ^ product >> 64) & _M64


def _avalanche(h: int) -> int:
    h ^= h >> 37
    h = h * _PRIME_MX1 & _M64
    return h ^ h >> 32


def _avalanche64(h: int) -> int:
    h ^= h >> 33
    h = h * _P64_2 & _M64
    h ^= h >> 29
    h = h * _P64_3 & _M64
    return h ^ h >> 32


def _swap32(x: int) -> int:
    return int.from_bytes(x.to_bytes(4, "little"), "big")


def _swap64(x: int) -> int:
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def _short(data: bytes) -> tuple[int, int]:
    length = len(data)
    if length > 8:
        return _of_9_to_16(data)
    if length >= 4:
        value = _half(data, 0) + (_half(data, length - 4) << 32)
        keyed = value ^ _word(_SECRET, 16) ^ _word(_SECRET, 24)
        product = keyed * ((_P64_1 + (length << 2)) & _M64)
        low, high = product & _M64, product >> 64
        high = (high + (low << 1)) & _M64
        low ^= high >> 3
        low ^= low >> 35
        low = low * _PRIME_MX2 & _M64
        low ^= low >> 28
        return low, _avalanche(high)
    if length:
        first, middle, last = data[0], data[length >> 1], data[-1]
        combined = (first << 16) | (middle << 24) | last | (length << 8)
        rotated = _swap32(combined)
        rotated = (rotated << 13 | rotated >> 19) & _M32
        low = combined ^ _half(_SECRET, 0) ^ _half(_SECRET, 4)
        high = rotated ^ _half(_SECRET, 8) ^ _half(_SECRET, 12)
        return _avalanche64(low), _avalanche64(high)
    low = _avalanche64(_word(_SECRET, 64) ^ _word(_SECRET, 72))
    return low, _avalanche64(_word(_SECRET, 80) ^ _word(_SECRET, 88))


def _of_9_to_16(data: bytes) -> tuple[int, int]:
    length = len(data)
    flip_low = _word(_SECRET, 32) ^ _word(_SECRET, 40)
    flip_high = _word(_SECRET, 48) ^ _word(_SECRET, 56)
    first, last = _word(data, 0), _word(data, length - 8)
    product = (first ^ last ^ flip_low) * _P64_1
    low, high = product & _M64, product >> 64
    low = (low + ((length - 1) << 54)) & _M64
    last ^= flip_high
    high = (high + last + (last & _M32) * (_P32_2 - 1)) & _M64
    low ^= _swap64(high)
    product = low * _P64_2
    low, carried = product & _M64, product >> 64
    high = (carried + high * _P64_2) & _M64
    return _avalanche(low), _avalanche(high)


def _mix16(data: bytes, at: int, secret: int) -> int:
    return _fold(
        _word(data, at) ^ _word(_SECRET, secret), _word(data, at + 8) ^ _word(_SECRET, secret + 8)
    )


def _mix32(low: int, high: int, data: bytes, at: int, other: int, secret: int) -> tuple[int, int]:
    low = (low + _mix16(data, at, secret)) & _M64
    low ^= (_word(data, other) + _word(data, other + 8)) & _M64
    high = (high + _mix16(data, other, secret + 16)) & _M64
    high ^= (_word(data, at) + _word(data, at + 8)) & _M64
    return low, high


def _finish(low: int, high: int, length: int) -> tuple[int, int]:
    mixed = low * _P64_1 + high * _P64_4 + length * _P64_2
    return _avalanche((low + high) & _M64), -_avalanche(mixed & _M64) & _M64


def _medium(data: bytes) -> tuple[int, int]:
    length = len(data)
    low, high = length * _P64_1 & _M64, 0
    for number in reversed(range((length - 1) // 32 + 1)):
        at = 16 * number
        low, high = _mix32(low, high, data, at, length - 16 - at, 2 * at)
    return _finish(low, high, length)


def _longer(data: bytes) -> tuple[int, int]:
    length = len(data)
    low, high = length * _P64_1 & _M64, 0
    for number in range(4):
        at = 32 * number
        low, high = _mix32(low, high, data, at, at + 16, at)
    low, high = _avalanche(low), _avalanche(high)
    for number in range(4, length // 32):
        at = 32 * number
        low, high = _mix32(low, high, data, at, at + 16, 3 + 32 * (number - 4))
    low, high = _mix32(low, high, data, length - 16, length - 32, 136 - 17 - 16)
    return _finish(low, high, length)


def _long(data: bytes) -> tuple[int, int]:
    length = len(data)
    sums = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    block_len = _STRIPE_LEN * _STRIPES_COUNT
    blocks_count = (length - 1) // block_len
    for block in range(blocks_count):
        for stripe in range(_STRIPES_COUNT):
            _accumulate(sums, data, block * block_len + stripe * _STRIPE_LEN, 8 * stripe)
        _scramble(sums)
    start = blocks_count * block_len
    for stripe in range((length - 1 - start) // _STRIPE_LEN):
        _accumulate(sums, data, start + stripe * _STRIPE_LEN, 8 * stripe)
    _accumulate(sums, data, length - _STRIPE_LEN, len(_SECRET) - _STRIPE_LEN - 7)
    low = _merge(sums, 11, length * _P64_1 & _M64)
    high = _merge(sums, len(_SECRET) - _STRIPE_LEN - 11, ~(length * _P64_2) & _M64)
    return low, high


def _accumulate(sums: list[int], data: bytes, at: int, secret: int) -> None:
    for lane in range(8):
        value = _word(data, at + 8 * lane)
        keyed = value ^ _word(_SECRET, secret + 8 * lane)
        sums[lane ^ 1] = (sums[lane ^ 1] + value) & _M64
        sums[lane] = (sums[lane] + (keyed & _M32) * (keyed >> 32)) & _M64


def _scramble(sums: list[int]) -> None:
    for lane in range(8):
        value = sums[lane]
        value ^= value >> 47
        value ^= _word(_SECRET, len(_SECRET) - _STRIPE_LEN + 8 * lane)
        sums[lane] = value * _P32_1 & _M64


def _merge(sums: list[int], secret: int, start: int) -> int:
    total = start
    for pair in range(4):
        at = secret + 16 * pair
        total += _fold(
            sums[2 * pair] ^ _word(_SECRET, at), sums[2 * pair + 1] ^ _word(_SECRET, at + 8)
        )
    return _avalanche(total & _M64)
