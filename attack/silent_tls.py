"""T09 by TLS: the same crowd before a listener that begins with a handshake of its own."""

from __future__ import annotations

import base64
from typing import Final

import trustme
from attack.silent import RSS_GROWTH as RSS_GROWTH
from attack.silent import SIZES as SIZES
from attack.silent import THREAT as THREAT
from attack.silent import attack as attack

SCHEME: Final = "tls"
_AUTHORITY: Final = trustme.CA()
_LEAF: Final = _AUTHORITY.issue_cert("127.0.0.1")


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


SETTINGS: Final = {
    "transport/link/tls/listen_certificate_base64": _base64(_LEAF.cert_chain_pems[0].bytes()),
    "transport/link/tls/listen_private_key_base64": _base64(_LEAF.private_key_pem.bytes()),
}
CLIENT: Final[dict[str, object]] = {
    "transport": {
        "link": {"tls": {"root_ca_certificate_base64": _base64(_AUTHORITY.cert_pem.bytes())}}
    }
}
