"""Nodes with default configurations on one host find each other, with a network and without one."""

from __future__ import annotations

import pytest
from tests.interop.namespaces import SETUPS, inside

_COMMON = """
import contextlib, importlib, io, json, sys, threading, time
import elea

def until(condition):
    end_s = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True
"""
_PEERS = (
    _COMMON
    + """
modules = [importlib.import_module(name) for name in sys.argv[1:]]
sessions = [module.open(module.Config()) for module in modules]
met = until(lambda: all(list(session.info.peers_zid()) for session in sessions))
found = set()
def hear(hello):
    found.add(str(hello.zid))
searches = [module.scout(hear) for module in dict.fromkeys([elea, *modules])]
wanted = {str(session.zid()) for session in sessions}
heard = until(lambda: wanted <= found)
for one in searches:
    one.stop()
for session in sessions:
    session.close()
print(json.dumps([met, heard]))
"""
)
_ROUTER = (
    _COMMON
    + """
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options

daemon = Daemon(Options())
daemon.start()
thread = threading.Thread(target=daemon.run)
thread.start()
module = importlib.import_module(sys.argv[1])
config = module.Config()
config.insert_json5("mode", json.dumps(sys.argv[2]))
try:
    with module.open(config) as session:
        met = until(lambda: list(session.info.routers_zid()))
finally:
    daemon.stop()
    thread.join()
    daemon.close()
print(json.dumps(met))
"""
)
_DOCTOR = (
    _COMMON
    + """
from elea.cli.main import main
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options

daemon = Daemon(Options())
daemon.start()
thread = threading.Thread(target=daemon.run)
thread.start()
printed = io.StringIO()
try:
    with contextlib.redirect_stdout(printed):
        code = main(["doctor", "--json", "--mode", "client"])
finally:
    daemon.stop()
    thread.join()
    daemon.close()
checks = [json.loads(line) for line in printed.getvalue().splitlines()]
found = [one for one in checks if one["check"].startswith("found ")]
print(json.dumps({"code": code, "found": found}))
"""
)
_ECLIPSE_ROUTER = (
    _COMMON
    + """
import zenoh

config = zenoh.Config()
config.insert_json5("mode", '"router"')
client = elea.Config()
client.insert_json5("mode", json.dumps(sys.argv[1]))
with zenoh.open(config), elea.open(client) as session:
    met = until(lambda: list(session.info.routers_zid()))
print(json.dumps(met))
"""
)
PAIRS = [("elea", "elea"), ("elea", "zenoh"), ("zenoh", "elea")]


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_default_peers_of_one_host_find_each_other(setup: str, pair: tuple[str, str]) -> None:
    """On a host with loopback only they never did, and `scout` was empty."""
    assert inside(setup, _PEERS, *pair) == [True, True]


@pytest.mark.parametrize(
    ("setup", "module", "mode"),
    [
        ("loopback", "elea", "client"),
        ("loopback", "elea", "peer"),
        ("loopback with multicast", "zenoh", "client"),  # Eclipse's needs a route
        ("card", "elea", "client"),
        ("card", "elea", "peer"),
        ("card", "zenoh", "client"),
    ],
)
def test_a_default_router_is_found_on_its_own_host(setup: str, module: str, mode: str) -> None:
    """It listens on loopback, and clients did not dial what a LAN address of their host told."""
    assert inside(setup, _ROUTER, module, mode) is True


@pytest.mark.parametrize("setup", ["loopback with multicast", "card"])
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_a_default_router_of_eclipse_is_found_on_its_own_host(setup: str, mode: str) -> None:
    assert inside(setup, _ECLIPSE_ROUTER, mode) is True


@pytest.mark.parametrize("setup", ["loopback", "card"])
def test_doctor_tells_whether_what_it_found_takes_connections(setup: str) -> None:
    printed = inside(setup, _DOCTOR)
    assert printed["code"] == 0
    [found] = printed["found"]
    assert found["status"] == "ok"
    assert found["found"].startswith("tcp/127.0.0.1:7447: router ")
    assert "wire version 9" in found["found"]
