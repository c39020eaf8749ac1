"""Certificates for the TLS tests, made once per run: good ones and every kind of bad one."""

from __future__ import annotations

import datetime
import ipaddress
import time
from dataclasses import dataclass
from functools import cache

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from elea.link.settings import Pem, TlsSettings
from elea.secret import Secret

HOST = "127.0.0.1"
CLIENT_NAME = "robot-7"
# Of a certificate that ends before all others: a whole second, some days from now.
ENDS_SOON_S = int(time.time()) + 5 * 86_400


@dataclass(frozen=True)
class Made:
    """A certificate and its key, as settings take them."""

    certificate: Pem
    key: Pem
    certificate_text: str
    key_text: str


@dataclass(frozen=True)
class Certificates:
    """What the tests use."""

    root: Pem
    root_text: str
    other_root: Pem
    server: Made
    client: Made
    foreign_client: Made  # of an authority that nobody trusts
    wrong_name: Made
    expired: Made
    self_signed: Made
    server_ends_soon: Made
    client_ends_soon: Made

    def settings(self, **changes: object) -> TlsSettings:
        """Both sides of one-sided TLS."""
        values: dict[str, object] = {
            "root_ca_certificate": self.root,
            "listen_certificate": self.server.certificate,
            "listen_private_key": self.server.key,
            **changes,
        }
        return TlsSettings(**values)  # type: ignore[arg-type]  # each name has its field's type

    def mutual(self, **changes: object) -> TlsSettings:
        """Both sides of mutual TLS."""
        own: dict[str, object] = {
            "enable_mtls": True,
            "connect_certificate": self.client.certificate,
            "connect_private_key": self.client.key,
        }
        return self.settings(**own | changes)


@cache
def certificates() -> Certificates:
    authority, other = trustme.CA(), trustme.CA()
    long_ago = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    soon = datetime.datetime.fromtimestamp(ENDS_SOON_S, tz=datetime.UTC)
    root_text = authority.cert_pem.bytes().decode()
    return Certificates(
        root=Pem(text=Secret(root_text)),
        root_text=root_text,
        other_root=Pem(text=Secret(other.cert_pem.bytes().decode())),
        server=_made(authority.issue_cert(HOST, "::1", "localhost")),
        client=_made(authority.issue_cert("robot-7.fleet", common_name=CLIENT_NAME)),
        foreign_client=_made(other.issue_cert("stranger", common_name="stranger")),
        wrong_name=_made(authority.issue_cert("elsewhere.example")),
        expired=_made(authority.issue_cert(HOST, not_before=long_ago, not_after=long_ago)),
        self_signed=_self_signed(),
        server_ends_soon=_made(authority.issue_cert(HOST, not_after=soon)),
        client_ends_soon=_made(
            authority.issue_cert("robot-7.fleet", common_name=CLIENT_NAME, not_after=soon)
        ),
    )


def _made(leaf: trustme.LeafCert) -> Made:
    certificate = "".join(blob.bytes().decode() for blob in leaf.cert_chain_pems)
    key = leaf.private_key_pem.bytes().decode()
    return Made(Pem(text=Secret(certificate)), Pem(text=Secret(key)), certificate, key)


def _self_signed() -> Made:
    """A certificate that nobody but its owner vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "on my own")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(serialization.Encoding.PEM).decode()
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return Made(Pem(text=Secret(text)), Pem(text=Secret(key_text)), text, key_text)
