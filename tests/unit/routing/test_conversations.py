"""The conversations of behaviour.md, appendix B, message by message."""

from __future__ import annotations

from tests.unit.routing.mesh import Mesh


def test_a_subscriber_and_a_publisher_of_two_clients() -> None:
    """B.1, with a peer in the place of the router."""
    mesh = Mesh()
    hub, one, two = mesh.node("hub"), mesh.node("one", "client"), mesh.node("two", "client")
    mesh.connect(one, hub)
    mesh.connect(two, hub)
    subscriber, publisher = one.session(), two.session()
    number = subscriber.subscriber("demo/**")
    assert one.to(hub) == ['D_KEYEXPR 1 "demo"', 'D_SUBSCRIBER id 1 (1,"/**")']
    publisher.publisher("demo/a")
    assert two.to(hub) == ['D_KEYEXPR 1 "demo/a"', "INTEREST 1 CURFUT K+S+R (1)"]
    assert hub.to(two) == ['D_SUBSCRIBER I=1 id 1 "demo/**"', "D_FINAL I=1"]
    publisher.put("demo/a", "x")
    assert two.to(hub) == ["PUSH (1) x"]
    assert hub.to(one) == ['PUSH (M=0 1,"/a") x']
    assert subscriber.heard() == ['PUSH "demo/a" x']
    subscriber.no_subscriber(number)
    assert one.to(hub) == ["U_SUBSCRIBER id 1"]
    assert hub.to(two) == ["U_SUBSCRIBER id 1"]
    publisher.put("demo/a", "y")
    assert two.to(hub) == []
