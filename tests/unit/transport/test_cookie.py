"""CookieJar: what is sealed opens once, for the right address, in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pairs import seeded

from elea.errors import RemoteProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.transport.cookie import CookieJar
from elea.transport.negotiation import Terms
from elea.wire.transport.establishment import QosLink

PLAIN = Terms(
    peer_zid=b"\x0a\x01", peer_whatami=1, batch_len=65_535, resolution=0x0A, qos=False, patch=0,
    low_latency=False, compression=False,
)  # fmt: skip
VARIANTS = [
    PLAIN,
    replace(PLAIN, qos=True, patch=1, compression=True),
    replace(PLAIN, low_latency=True, batch_len=64, resolution=0x00),
    replace(PLAIN, qos=True, qos_link=QosLink(priorities=(1, 3), reliable=True)),
    replace(PLAIN, peer_region_name="südlich", nonce=2**64 - 1),
    replace(PLAIN, nonce=0, peer_zid=bytes(range(1, 17))),
]


@pytest.mark.parametrize("terms", VARIANTS)
def test_the_terms_come_back(terms: Terms) -> None:
    jar = CookieJar(seeded())
    assert jar.open(jar.seal(terms, "here", 5), "here", 6) == terms


def test_every_flipped_bit_is_noticed() -> None:
    jar = CookieJar(seeded())
    cookie = jar.seal(PLAIN, "here", 0)
    for bit in range(8 * len(cookie)):
        forged = bytearray(cookie)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteProtocolError):
            jar.open(bytes(forged), "here", 0)
    assert jar.open(cookie, "here", 0) == PLAIN  # trying did not use it up


def test_another_process_has_another_key() -> None:
    cookie = CookieJar(seeded(1)).seal(PLAIN, "here", 0)
    with pytest.raises(RemoteProtocolError):
        CookieJar(seeded(2)).open(cookie, "here", 0)


def test_it_opens_once() -> None:
    jar = CookieJar(seeded())
    cookie = jar.seal(PLAIN, "here", 0)
    jar.open(cookie, "here", 0)
    with pytest.raises(RemoteProtocolError, match="used"):
        jar.open(cookie, "here", 0)


def test_it_expires() -> None:
    jar = CookieJar(seeded())
    cookie = jar.seal(PLAIN, "here", 100)
    with pytest.raises(RemoteProtocolError, match="expired"):
        jar.open(cookie, "here", 100 + DEFAULT_LIMITS.cookie_ns)
    assert jar.open(cookie, "here", 99 + DEFAULT_LIMITS.cookie_ns) == PLAIN


def test_equal_handshakes_get_different_cookies() -> None:
    jar = CookieJar(seeded())
    assert len({jar.seal(PLAIN, "here", 0) for _ in range(100)}) == 100


def test_of_many_the_last_ones_open_and_each_once() -> None:
    limits = replace(DEFAULT_LIMITS, cookies_count=20)
    jar = CookieJar(seeded(), limits=limits)
    cookies = [jar.seal(PLAIN, "here", 0) for _ in range(100)]
    for cookie in cookies[:80]:
        with pytest.raises(RemoteProtocolError, match="expired"):
            jar.open(cookie, "here", 0)
    for cookie in cookies[80:]:
        assert jar.open(cookie, "here", 0) == PLAIN
        with pytest.raises(RemoteProtocolError, match="used"):
            jar.open(cookie, "here", 0)
    assert len(jar._used) == 3  # octets, however many there were
