"""`gateway/south` of a configuration: what a node makes of it, and what it tells its neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.node.worlds import Session, settings

from elea.config.config import Config
from elea.errors import ConfigError
from elea.ids import WhatAmI
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.node.settings import NodeSettings
from elea.routing.roles.subregions import Filter
from elea.sim.world import World, seconds


def of(south: str, mode: str = "peer") -> NodeSettings:
    config = Config()
    config.insert_json5("mode", f'"{mode}"')
    config.insert_json5("gateway/south", south)
    return NodeSettings.from_config(config, lambda count: b"\x01" * count)


def test_subregions_are_read() -> None:
    assert of('"auto"').subregions is None
    assert of("[]").subregions == ()
    read = of(
        """[{}, {filters: []}, {filters: [
            {modes: ["peer", "client"], zids: ["a1"], interfaces: ["lo"], region_names: ["x"]},
            {negated: true},
        ]}]"""
    )
    full = Filter(
        roles=0b110,
        zids=frozenset({b"\xa1"}),
        interfaces=frozenset({"lo"}),
        region_names=frozenset({"x"}),
    )
    assert read.subregions == (None, (), (full, Filter(negated=True)))


def test_a_client_is_no_gateway() -> None:
    with pytest.raises(ConfigError, match="gateway of nobody"):
        of("[{}]", "client")


def test_both_sides_agree_on_who_is_south() -> None:
    world = World(1)
    plant = Filter(region_names=frozenset({"plant"}))
    gate = world.add("g", replace(settings(1, listen="tcp/g:1"), subregions=((plant,),)))
    north = world.add("n", settings(2, connect=("tcp/g:1",)))
    south = world.add("s", settings(3, connect=("tcp/g:1",), region_name="plant"))
    here, there = Session(north), Session(south)
    here.subscribe("a")
    there.subscribe("b")
    world.run_for(seconds(3))
    regions = {face.spec.zid: face for face in gate.node.routing.tables.faces.values()}
    assert regions[b"\x02"].region.name == "north"
    assert regions[b"\x03"].region.name == "south:0:peer"
    [face] = [one for one in south.node.routing.tables.faces.values() if not one.spec.local]
    assert face.spec.gateway
    here.put("b", b"1")
    there.put("a", b"2")
    world.run_for(seconds(1))
    assert (there.samples, here.samples) == ([("b", b"1")], [("a", b"2")])


def test_two_that_have_each_other_south_do_not_stay_connected() -> None:
    world = World(1)
    everybody = ((Filter(),),)
    world.add("one", replace(settings(1, listen="tcp/one:1"), subregions=everybody))
    two = replace(settings(2, connect=("tcp/one:1",)), subregions=everybody)
    session = Session(world.add("two", two))
    world.run_for(seconds(5))
    assert not any(isinstance(one, NeighbourUp | NeighbourDown) for one in session.neighbours)


def test_a_router_is_not_taken_south() -> None:
    world = World(1)
    hub = settings(1, WhatAmI.ROUTER, listen="tcp/hub:1", subregions=(None,))
    world.add("hub", hub)
    router = settings(2, WhatAmI.ROUTER, connect=("tcp/hub:1",))
    session = Session(world.add("r", router))
    world.run_for(seconds(5))
    assert not session.driver.node.neighbours()
