"""TLS: who is refused, and that the refusal says what to do."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.link.cases import MTLS, TCP, TLS
from tests.link.certificates import CLIENT_NAME, ENDS_SOON_S, HOST, certificates
from tests.link.rig import Case, Pair, Rig, turns, wait

from elea.config.config import Config
from elea.errors import ConfigError, LinkError
from elea.link.base import Link, Listener, PendingLink
from elea.link.settings import LinkSettings, Pem, TlsSettings
from elea.link.stream import Connecting
from elea.link.tls import TlsHandshake, TlsLink
from elea.link.tls_context import client_context, own_expiry_s, server_context
from elea.locator import Endpoint

MakeRig = Callable[[Case], Rig]
MADE = certificates()


def case_of(listening: TlsSettings, option: str = "") -> Case:
    return replace(
        TLS,
        settings=LinkSettings(tls=listening),
        listen=lambda _: f"tls/127.0.0.1:0{option}",
        connect=lambda locator: locator + option,
    )


def failures(rig: Rig, listener: Listener, connecting: TlsSettings) -> tuple[str, str]:
    """Let both sides try; what each of them says when it fails."""
    said = {"near": "", "far": ""}
    near: PendingLink | Link | None = rig.dial(listener, LinkSettings(tls=connecting))
    far: PendingLink | Link | None = None
    for _ in turns():
        if far is None and not said["far"]:
            far = listener.accept()
        near = attempt(near, "near", said)
        far = attempt(far, "far", said)
        if said["near"] and said["far"]:
            return said["near"], said["far"]
        wait([(one.fileno(), 1) for one in (near, far, listener) if one is not None])
    raise AssertionError(f"nobody was refused: {said}")


def attempt(
    one: PendingLink | Link | None, side: str, said: dict[str, str]
) -> PendingLink | Link | None:
    """The next step of a handshake, or the first read after it."""
    try:
        if isinstance(one, Connecting | TlsHandshake):
            return one.step() or one
        if isinstance(one, TlsLink) and one.read(100) == b"":
            said[side] = "closed"
            return None
    except LinkError as error:
        said[side] = str(error)
        assert one is not None
        one.close()
        return None
    return one


@pytest.mark.parametrize(
    ("listening", "connecting", "near", "far"),
    [
        pytest.param(
            MADE.settings(),
            MADE.settings(root_ca_certificate=MADE.other_root),
            "unable to get local issuer certificate: check root_ca_certificate",
            "does not trust our certificate's authority",
            id="wrong CA",
        ),
        pytest.param(
            MADE.settings(
                listen_certificate=MADE.wrong_name.certificate,
                listen_private_key=MADE.wrong_name.key,
            ),
            MADE.settings(),
            "IP address mismatch, certificate is not valid for '127.0.0.1'",
            "does not accept our certificate",
            id="wrong name",
        ),
        pytest.param(
            MADE.settings(
                listen_certificate=MADE.expired.certificate, listen_private_key=MADE.expired.key
            ),
            MADE.settings(),
            "certificate has expired",
            "our certificate has expired",
            id="expired",
        ),
        pytest.param(
            MADE.mutual(),
            MADE.settings(),
            "set enable_mtls, connect_certificate and connect_private_key",
            "the other side needs connect_certificate",
            id="no client certificate",
        ),
        pytest.param(
            MADE.mutual(),
            MADE.mutual(
                connect_certificate=MADE.foreign_client.certificate,
                connect_private_key=MADE.foreign_client.key,
            ),
            "does not trust our certificate's authority",
            "unable to get local issuer certificate",
            id="client of a foreign CA",
        ),
        pytest.param(
            MADE.settings(
                listen_certificate=MADE.self_signed.certificate,
                listen_private_key=MADE.self_signed.key,
            ),
            MADE.settings(),
            "self-signed certificate: check root_ca_certificate",
            "does not trust our certificate's authority",
            id="self-signed",
        ),
        pytest.param(
            MADE.mutual(),
            MADE.mutual(
                connect_certificate=MADE.self_signed.certificate,
                connect_private_key=MADE.self_signed.key,
            ),
            "does not trust our certificate's authority",
            "self-signed certificate",
            id="self-signed client",
        ),
        pytest.param(
            MADE.mutual(allowed_names=frozenset({"robot-8"})),
            MADE.mutual(),
            "closed",
            "its certificate is for 'robot-7', which elea/tls/allowed_names does not list",
            id="not on the list",
        ),
    ],
)
def test_refused_with_a_clear_error(
    listening: TlsSettings, connecting: TlsSettings, near: str, far: str, rig: MakeRig
) -> None:
    one = rig(case_of(listening))
    said_near, said_far = failures(one, one.listen(), connecting)
    assert near in said_near
    assert far in said_far


@pytest.mark.parametrize("name", [CLIENT_NAME, "robot-7.fleet"])
def test_the_list_has_common_or_alternative_names(name: str, rig: MakeRig) -> None:
    rig(case_of(MADE.mutual(allowed_names=frozenset({name, "another"})))).pair()


def test_the_name_may_go_unchecked_when_asked(rig: MakeRig) -> None:
    wrong = MADE.settings(
        listen_certificate=MADE.wrong_name.certificate, listen_private_key=MADE.wrong_name.key
    )
    rig(case_of(wrong, "#verify_name_on_connect=false")).pair()


def test_a_plain_tcp_client_and_a_plain_tcp_listener_are_told_apart(rig: MakeRig) -> None:
    one = rig(TLS)
    listener = one.listen()
    with socket.create_connection(("127.0.0.1", listener.locator.host_port()[1])) as plain:
        plain.send(b"\x10\x00" + b"not TLS at all. " * 4)

        def try_it() -> None:
            accepted = None
            for _ in turns():
                if accepted is None:
                    accepted = listener.accept()
                if accepted is not None:
                    one.closing.append(accepted)
                    accepted.step()
                wait([(listener.fileno(), 1)])

        with pytest.raises(LinkError, match="does not speak TLS"):
            try_it()


def test_mutual_tls_tells_the_common_name(rig: MakeRig) -> None:
    ends = rig(MTLS).pair()
    assert ends.far.info.peer_common_name == CLIENT_NAME
    assert ends.far.info.peer_names == ("robot-7.fleet",)
    assert HOST in ends.near.info.peer_names
    assert ends.near.info.expires_s is None
    ends = rig(TLS).pair()
    assert ends.far.info.peer_common_name is None
    assert ends.far.info.peer_names == ()


def test_a_link_may_end_with_its_certificate(rig: MakeRig) -> None:
    settings = MADE.mutual(close_link_on_expiration=True)
    ends = rig(case_of(settings)).pair()
    assert ends.far.info.expires_s is not None
    assert ends.near.info.expires_s is not None


@pytest.mark.parametrize("listening", [True, False])
def test_our_own_certificate_ends_too(listening: bool) -> None:
    settings = MADE.mutual(close_link_on_expiration=True)
    soon = MADE.server_ends_soon if listening else MADE.client_ends_soon
    side = "listen" if listening else "connect"
    short = replace(
        settings,
        **{f"{side}_certificate": soon.certificate, f"{side}_private_key": soon.key},  # type: ignore[arg-type]  # each name has its field's type
    )
    assert own_expiry_s(short, listening=listening) == ENDS_SOON_S
    assert own_expiry_s(settings, listening=listening) != ENDS_SOON_S
    assert own_expiry_s(replace(short, close_link_on_expiration=False), listening=listening) is None


def test_our_own_certificate_may_have_ended() -> None:
    ended = MADE.settings(
        listen_certificate=MADE.expired.certificate,
        listen_private_key=MADE.expired.key,
        close_link_on_expiration=True,
    )
    assert own_expiry_s(ended, listening=True) == 0
    assert own_expiry_s(ended, listening=False) is None  # none is shown


def test_the_link_ends_with_the_first_certificate_that_does(rig: MakeRig) -> None:
    settings = MADE.mutual(
        close_link_on_expiration=True,
        connect_certificate=MADE.client_ends_soon.certificate,
        connect_private_key=MADE.client_ends_soon.key,
    )
    ends = rig(replace(case_of(settings), settings=LinkSettings(tls=settings))).pair()
    assert (ends.near.info.expires_s, ends.far.info.expires_s) == (ENDS_SOON_S, ENDS_SOON_S)


def test_a_key_that_every_user_can_read_is_refused(open_folder: Path) -> None:
    key = open_folder / "key.pem"
    key.touch(0o600)
    key.write_text(MADE.server.key_text)
    settings = MADE.settings(listen_private_key=Pem(path=str(key)))
    server_context(settings)
    key.chmod(0o604)
    with pytest.raises(LinkError, match="every user may read it; run: chmod o-rwx"):
        server_context(settings)


def test_only_tls_1_3_unless_1_2_is_asked_for(rig: MakeRig) -> None:
    for option, version in (("", "TLSv1.3"), ("#tls_min_version=1.2", "TLSv1.2")):
        listener = rig(case_of(MADE.settings(), option)).listen()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=MADE.root_text)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", listener.locator.host_port()[1])) as raw:
            raw.setblocking(False)
            secured = context.wrap_socket(raw, server_hostname=HOST, do_handshake_on_connect=False)
            assert negotiated(secured, listener) == (None if version == "TLSv1.3" else version)


def negotiated(client: ssl.SSLSocket, listener: Listener) -> str | None:
    """The version that a foreign client agrees on with our listener, None if it is refused."""
    with client, contextlib.ExitStack() as closing:
        accepted: PendingLink | Link | None = None
        for _ in turns():
            try:
                client.do_handshake()
                return client.version()
            except ssl.SSLWantReadError:
                pass
            except OSError:
                return None
            if accepted is None:
                accepted = listener.accept()
                if accepted is not None:
                    closing.callback(accepted.close)
            attempt(accepted, "far", {})
            wait([(client.fileno(), 1), (listener.fileno(), 1)])
    raise AssertionError("neither agreed nor refused")


def test_reloaded_certificates_are_for_newcomers_and_bad_ones_are_refused(
    rig: MakeRig, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text(MADE.expired.certificate_text)
    key.touch(0o600)
    key.write_text(MADE.expired.key_text)
    settings = MADE.settings(
        listen_certificate=Pem(path=str(certificate)), listen_private_key=Pem(path=str(key))
    )
    one = rig(case_of(settings))
    listener = one.listen()
    assert "expired" in failures(one, listener, MADE.settings())[0]
    certificate.write_text(MADE.server.certificate_text)
    key.write_text(MADE.server.key_text)
    listener.reload(LinkSettings(tls=settings))
    near, far = one.meet(listener, one.dial(listener))
    certificate.write_text("no certificate")
    with pytest.raises(LinkError, match=r"listen_certificate and .* cannot be used.*expected PEM"):
        listener.reload(LinkSettings(tls=settings))
    one.meet(listener, one.dial(listener))  # with the last good ones
    ends = Pair(one, listener, near, far)
    ends.write(near, b"still here")
    assert ends.read(far, 10) == b"still here"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (TlsSettings(), "needs transport/link/tls/listen_certificate"),
        (
            MADE.settings(listen_certificate=Pem(path="nowhere.pem")),
            "listen_certificate: there is no file nowhere.pem",
        ),
        (
            MADE.settings(listen_private_key=MADE.client.key),
            "a key that belongs to the certificate",
        ),
        (MADE.settings(enable_mtls=True, root_ca_certificate=None), "to check by"),
        (MADE.settings(allowed_names=frozenset()), "needs transport/link/tls/enable_mtls"),
    ],
    ids=["nothing", "no file", "foreign key", "mutual without root", "list without mutual"],
)
def test_listener_settings_that_cannot_work(settings: TlsSettings, said: str) -> None:
    with pytest.raises(LinkError, match=said):
        server_context(settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            MADE.settings(root_ca_certificate=Pem(path="nowhere.pem")),
            "root_ca_certificate: nowhere",
        ),
        (MADE.settings(enable_mtls=True), "connect_certificate and connect_private_key"),
    ],
    ids=["no file", "mutual without certificate"],
)
def test_connector_settings_that_cannot_work(settings: TlsSettings, said: str) -> None:
    with pytest.raises(LinkError, match=said):
        client_context(settings)


def test_settings_come_from_the_configuration_and_endpoints_override_them() -> None:
    encoded = base64.b64encode(MADE.root_text.encode()).decode()
    config = Config()
    config.insert_json5("transport/link/tls/root_ca_certificate_base64", f'"{encoded}"')
    config.insert_json5("transport/link/tls/listen_certificate", '"/etc/cert.pem"')
    config.insert_json5("transport/link/tls/enable_mtls", "true")
    config.insert_json5("transport/link/tls/so_sndbuf", "4096")
    config.insert_json5("transport/link/protocols", '["tls"]')
    settings = LinkSettings.from_config(config)
    root = settings.tls.root_ca_certificate
    assert root is not None
    assert root.text is not None
    assert root.text.reveal() == MADE.root_text
    assert settings.tls.listen_certificate == Pem(path="/etc/cert.pem")
    assert settings.tls.enable_mtls
    assert settings.tls_so_sndbuf == 4_096
    assert settings.protocols == frozenset({"tls"})
    own = settings.tls.for_endpoint(
        Endpoint.parse(
            "tls/host:1#enable_mtls=false;listen_certificate_file=b.pem;connect_private_key=c.pem"
        )
    )
    assert not own.enable_mtls
    assert own.listen_certificate == Pem(path="b.pem")
    assert own.connect_private_key == Pem(path="c.pem")
    assert own.root_ca_certificate == root


@pytest.mark.parametrize(
    "option",
    ["enable_mtls=maybe", "tls_min_version=1.1", "root_ca_certificate_base64=%%%"],
)
def test_options_without_a_legal_value(option: str) -> None:
    with pytest.raises(ConfigError):
        TlsSettings().for_endpoint(Endpoint.parse(f"tls/host:1#{option}"))


def test_a_handshake_with_a_listener_that_hangs_up(rig: MakeRig) -> None:
    plain = rig(TCP).listen()
    one = rig(replace(TLS, connect=lambda locator: locator.replace("tcp/", "tls/")))
    dialled = one.dial(plain)

    def try_it() -> None:
        for _ in turns():
            accepted = plain.accept()
            if accepted is not None:
                accepted.close()
            dialled.step()
            wait([(dialled.fileno(), dialled.wants()), (plain.fileno(), 1)])

    with pytest.raises(LinkError, match="closed the connection"):
        try_it()
