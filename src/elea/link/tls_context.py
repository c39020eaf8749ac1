"""TLS contexts from settings: certificates from files or texts, versions, whom to trust."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from elea.config_file import is_open_to_all
from elea.errors import LinkError
from elea.link.settings import Pem, TlsSettings

_HAS_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_TURNS_MAX: Final = 10  # of a handshake within this process; TLS 1.3 takes two


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """What a listener shows, and with mutual TLS whom it lets in.

    Raises:
        LinkError: if a certificate or key is missing or cannot be used.
    """
    certificate, key = settings.listen_certificate, settings.listen_private_key
    if certificate is None or key is None:
        raise LinkError(
            "a tls listener needs transport/link/tls/listen_certificate and listen_private_key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_version(context, settings)
    context.num_tickets = 0  # sessions are not resumed; two tickets per handshake would be waste
    _load_chain(context, certificate, key, "listen_certificate", "listen_private_key")
    if settings.allowed_names is not None and not settings.enable_mtls:
        raise LinkError(
            "elea/tls/allowed_names needs transport/link/tls/enable_mtls: without it nobody who"
            " connects shows a certificate"
        )
    if settings.enable_mtls:
        if settings.root_ca_certificate is None:
            raise LinkError("enable_mtls needs transport/link/tls/root_ca_certificate, to check by")
        _load_roots(context, settings.root_ca_certificate)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Whom a connecting side trusts, and with mutual TLS what it shows.

    Raises:
        LinkError: if a certificate or key is missing or cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and name
    _set_version(context, settings)
    context.check_hostname = settings.verify_name_on_connect
    if settings.root_ca_certificate is not None:
        _load_roots(context, settings.root_ca_certificate)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.enable_mtls:
        certificate, key = settings.connect_certificate, settings.connect_private_key
        if certificate is None or key is None:
            raise LinkError(
                "enable_mtls needs transport/link/tls/connect_certificate and connect_private_key"
            )
        _load_chain(context, certificate, key, "connect_certificate", "connect_private_key")
    return context


def own_expiry_s(settings: TlsSettings, *, listening: bool) -> int | None:
    """When links end with the certificate that this side shows, in seconds since 1970.

    None if they do not, or as `certificate_end_s`.
    """
    if not settings.close_link_on_expiration:
        return None
    return certificate_end_s(settings, listening=listening)


def certificate_end_s(settings: TlsSettings, *, listening: bool) -> int | None:
    """When the certificate that this side shows ends, in seconds since 1970; 0 if it has ended.

    None if this side shows none, or if the standard library does not accept it; the other side is
    then the judge.

    The standard library tells of certificates that somebody has shown and it has verified. So this
    one is shown to ourselves, trusting nothing but itself.
    """
    if listening:
        certificate, key = settings.listen_certificate, settings.listen_private_key
    else:
        certificate, key = settings.connect_certificate, settings.connect_private_key
    shown = listening or settings.enable_mtls
    if not (shown and certificate and key):
        return None
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    shows, looks = (server, client) if listening else (client, server)
    if not listening:
        client.verify_mode = ssl.CERT_NONE
        server.verify_mode = ssl.CERT_REQUIRED
    looks.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _load_chain(shows, certificate, key, "certificate", "private_key")
    if not listening:
        _load_chain(server, certificate, key, "certificate", "private_key")
    _load_roots(looks, certificate)
    try:
        found = _shown(server, client, by_server=listening)
    except ssl.SSLCertVerificationError as error:
        return 0 if error.verify_code == _HAS_EXPIRED else None
    except ssl.SSLError:
        return None
    ends = (found or {}).get("notAfter")
    return int(ssl.cert_time_to_seconds(ends)) if isinstance(ends, str) else None


def _shown(
    server_context: ssl.SSLContext, client_context: ssl.SSLContext, *, by_server: bool
) -> Mapping[str, object] | None:
    """The certificate that one side shows the other, in a conversation within this process."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server)
    waiting = [client, server]
    for _ in range(_TURNS_MAX):
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)
    return (client if by_server else server).getpeercert()


def _set_version(context: ssl.SSLContext, settings: TlsSettings) -> None:
    older = settings.version_1_2
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if older else ssl.TLSVersion.TLSv1_3


def _load_roots(context: ssl.SSLContext, pem: Pem) -> None:
    try:
        if pem.text is not None:
            context.load_verify_locations(cadata=pem.text.reveal())
        else:
            context.load_verify_locations(cafile=pem.path)
    except (OSError, ValueError) as error:
        raise _unusable(pem, "root_ca_certificate", error) from error


def _load_chain(
    context: ssl.SSLContext, certificate: Pem, key: Pem, certificate_name: str, key_name: str
) -> None:
    for pem, name in ((certificate, certificate_name), (key, key_name)):
        if pem.path is not None and not os.path.isfile(pem.path):
            raise LinkError(f"transport/link/tls/{name}: there is no file {pem.path}")
    if key.path is not None and is_open_to_all(key.path):
        raise LinkError(
            f"transport/link/tls/{key_name}: {key.path} is a private key and every user may read"
            f" it; run: chmod o-rwx {key.path}"
        )
    try:
        with _as_file(certificate) as certfile, _as_file(key) as keyfile:
            # No password prompt: a node that starts by itself has nobody to ask.
            context.load_cert_chain(certfile, keyfile, password="")
    except (OSError, ValueError) as error:
        raise _unusable(certificate, f"{certificate_name} and {key_name}", error) from error


@contextmanager
def _as_file(pem: Pem) -> Iterator[str]:
    """A path to read it from; what was given inline touches no disk where that is possible."""
    if pem.text is None:
        assert pem.path is not None
        yield pem.path
        return
    data = pem.text.reveal().encode()
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("elea-pem", os.MFD_CLOEXEC)
        try:
            os.write(fd, data)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600, removed at the end
        file.write(data)
        file.flush()
        yield file.name


def _unusable(pem: Pem, name: str, error: Exception) -> LinkError:
    where = pem.path if pem.path is not None else "the inline text"
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    if "PEM lib" in reason:  # all that OpenSSL says of a file that holds no such thing
        reason = "it holds no certificate or no key"
    return LinkError(
        f"transport/link/tls/{name}: {where} cannot be used: {reason};"
        " expected PEM, and a key that belongs to the certificate"
    )
