"""Services: started, stopped and started anew, by the configuration."""

from __future__ import annotations

import logging

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import Recorder, ask, client_of, options, read, root_of, running

from elea.config.kinds import Value
from elea.daemon.daemon import Daemon
from elea.daemon.services import Services, Start, installed
from elea.errors import ConfigError
from elea.session.session import Session


def broken(session: Session, settings: dict[str, Value]) -> Recorder:
    raise OSError("the disk is full")


def test_a_service_gets_its_settings_and_is_stopped() -> None:
    service = Recorder()
    with running(options("plugins/note:{level: 3}"), note=service) as daemon:
        assert service.settings == {"level": 3}
        assert [one.name for one in daemon.services] == ["note"]
    assert service.log == ["start", "stop"]


def test_a_service_is_shown_in_the_admin_space() -> None:
    with (
        running(options("plugins/note:{}"), note=Recorder()) as daemon,
        client_of(daemon) as client,
    ):
        root = root_of(daemon)
        assert read(client, root)["plugins"] == {"note": {"name": "note", "path": "package:start"}}
        assert read(client, f"{root}/plugins/*")["state"] == "Started"
        assert ask(client, f"{root}/status/plugins/**") == {
            f"{root}/status/plugins/note/__path__": b"package:start",
            f"{root}/status/plugins/note/starts": b"1",
        }


def test_what_is_required_and_missing_is_refused() -> None:
    with pytest.raises(ConfigError, match="plugins/rest: it is required and not installed"):
        Daemon(options(rest_http_port="8000"), find=lambda name: None)


def test_what_is_missing_and_not_required_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with running(options("plugins/storage_manager:{}")) as daemon:
        assert list(daemon.services) == []
    assert "plugins/storage_manager: no such service is installed" in caplog.text


def test_nothing_is_started_if_services_are_off() -> None:
    service = Recorder()
    with running(options("plugins/note:{}", "plugins_loading/enabled:false"), note=service):
        pass
    assert service.log == []


def test_one_that_fails_is_left_out_unless_it_is_required(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running(options("plugins/bad:{}"), bad=broken) as daemon:
        assert list(daemon.services) == []
    assert "service bad did not start" in caplog.text
    with (
        pytest.raises(ConfigError, match="plugins/bad: it did not start: the disk is full"),
        running(options(plugin=("bad",)), bad=broken),
    ):
        pass


def test_one_that_does_not_stop_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Recorder):
        def stop(self) -> None:
            raise RuntimeError("no")

    other = Recorder()
    with running(options("plugins/a:{}", "plugins/b:{}"), a=other, b=Stubborn()):
        pass
    assert other.log == ["start", "stop"]
    assert [one.levelno for one in caplog.records if "b did not end" in one.message] == [
        logging.ERROR
    ]


class Changeable(Recorder):
    """A service that takes new settings while it runs, and knows which are legal."""

    def change(self, settings: dict[str, Value]) -> None:
        if settings.get("level") == 13:
            raise RuntimeError("not that one")
        self.log.append("change")
        self.settings = settings

    def check(self, settings: dict[str, Value]) -> None:
        if settings.get("level") == -1:
            raise ConfigError("plugins/note/level", "levels begin at 0")


def test_one_that_can_change_is_not_started_anew(caplog: pytest.LogCaptureFixture) -> None:
    service = Changeable()
    with running(options("plugins/note:{level: 1}"), note=service) as daemon:
        daemon.change_config("plugins/note/level", "2")
        assert eventually(lambda: service.settings == {"level": 2})
        assert service.log == ["start", "change"]
        daemon.change_config("plugins/note/level", "13")
        assert eventually(lambda: service.settings == {"level": 13})
        assert service.log == ["start", "change", "stop", "start"]
    assert "service note did not take its new settings" in caplog.text


def test_settings_that_a_service_refuses_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    service = Changeable()
    with running(options("plugins/note:{level: 1}"), note=service) as daemon:
        daemon.change_config("plugins/note/level", "-1")
        daemon.change_config("plugins/note/level", "3")
        assert eventually(lambda: service.settings == {"level": 3})
        assert service.log == ["start", "change"]
    assert "plugins/note/level: levels begin at 0" in caplog.text
    with (
        pytest.raises(ConfigError, match="levels begin at 0"),
        running(options("plugins/note:{level: -1}"), note=service),
    ):
        pass


def test_one_that_cannot_be_loaded_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        value = "package:start"

        def load(self) -> Start:
            raise ImportError("no such module")

    daemon = Daemon(options("plugins/note:{}"), find=lambda name: Broken())
    daemon.start()
    daemon.close()
    assert "service note did not start" in caplog.text


def test_no_package_brings_what_nobody_wrote() -> None:
    assert installed("no-such-service") is None
    assert list(Services()) == []
