"""What ids mean: declared, refused, bound, forgotten."""

from __future__ import annotations

import dataclasses

import pytest

from elea.decode.layout import Layout, parse_layout
from elea.limits import DEFAULT_LIMITS
from elea.xrce.declaration_records import (
    BindingDecl,
    CommitDecl,
    Declaration,
    ForgetPublisherDecl,
    ForgetResourceDecl,
    ForgetSelectionDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    SelectionDecl,
    SubscriberDecl,
    SubscriberDeclParamsPart,
)
from elea.xrce.declarations import Declarations, Rules
from elea.xrce.names import Resource
from elea.xrce.properties import DURABILITY, PARAMETERS, RELIABILITY, texts
from elea.xrce.qualities import Level
from elea.xrce.status import RefusedError, Status


def resource(rid: int, name: str = "xrce://lab/t", **values: bytes) -> ResourceDecl:
    listed = tuple(Property(id=int(one[1:]), value=value) for one, value in values.items())
    return ResourceDecl(rid=rid, resource=name.encode(), properties=listed or None)


def selection(sid: int, query: str = "/lab/*?{v>3}", *parameters: str) -> SelectionDecl:
    listed = (Property(id=PARAMETERS, value=texts(parameters)),) if parameters else None
    return SelectionDecl(global_=False, sid=sid, query=query.encode(), properties=listed)


def subscriber(id_: int, mode: int = 1, *window: int) -> SubscriberDecl:
    params = None
    if window:
        origin, period, duration = window
        params = SubscriberDeclParamsPart(temporal_origin=origin, period=period, duration=duration)
    return SubscriberDecl(id=id_, mode=mode, params=params)


def binding(old_id: int, new_id: int) -> BindingDecl:
    return BindingDecl(global_=False, old_id=old_id, new_id=new_id)


def refusal(table: Declarations, *declarations: Declaration) -> tuple[Status, int]:
    before = dict(table.names), dict(table.publishers), dict(table.subscribers)
    with pytest.raises(RefusedError) as caught:
        table.apply(declarations)
    assert (table.names, table.publishers, table.subscribers) == before
    return caught.value.status, caught.value.id


@pytest.mark.line("X-058")
@pytest.mark.parametrize(
    ("declaration", "id_"),
    [
        (resource(3), 3),
        (resource(0), 0),
        (resource(2**63), 2**63),
        (selection(4), 4),
        (selection(0), 0),
        (PublisherDecl(rid=0), 0),
        (subscriber(0), 0),
        (ForgetResourceDecl(rid=3), 3),
        (ForgetSelectionDecl(sid=2), 2),
        (ForgetPublisherDecl(id=0), 0),
        (ForgetSubscriberDecl(id=0), 0),
    ],
)
def test_an_id_of_the_wrong_kind_is_refused(declaration: Declaration, id_: int) -> None:
    assert refusal(Declarations(), declaration) == (Status.INVALID, id_)


@pytest.mark.line("X-058")
def test_the_largest_ids_are_accepted() -> None:
    table = Declarations()
    table.apply([resource(2**63 - 2), selection(2**63 - 1)])
    assert set(table.names) == {2**63 - 2, 2**63 - 1}


@pytest.mark.line("X-059")
def test_what_is_said_twice_has_one_effect() -> None:
    table = Declarations()
    first = table.apply([resource(2, "/lab/t", p6=b"\0")])
    again = table.apply([resource(2, "zenoh://lab/t", p6=b"\0")])
    assert (len(first.names), again.names) == (1, [])
    assert len(table.apply([selection(3)]).names) == 1
    assert table.apply([selection(3, "xrce://lab/*#?{v > 3}")]).names == []


@pytest.mark.line("X-060")
def test_an_id_keeps_its_meaning() -> None:
    table = Declarations()
    table.apply([resource(2), selection(3)])
    assert refusal(table, resource(2, "/lab/u")) == (Status.CONFLICT, 2)
    assert refusal(table, resource(2, p6=b"\1")) == (Status.CONFLICT, 2)
    assert refusal(table, selection(3, "/lab/*?{v>4}")) == (Status.CONFLICT, 3)


@pytest.mark.line("X-061")
def test_two_ids_may_name_one_resource() -> None:
    table = Declarations()
    table.apply([resource(2), resource(4), subscriber(2), subscriber(4)])
    assert table.names[2].resource == table.names[4].resource
    table.apply([ForgetResourceDecl(rid=2)])
    assert (set(table.names), set(table.subscribers)) == ({4}, {4})


@pytest.mark.line("X-056")
def test_the_order_of_references_does_not_matter() -> None:
    table = Declarations()
    table.apply([subscriber(7), PublisherDecl(rid=9), binding(5, 7), binding(3, 5), selection(9),
                 selection(3), subscriber(2), resource(2)])  # fmt: skip
    assert set(table.subscribers) == {2, 7}
    assert table.names[7] is table.names[3]
    assert set(table.publishers) == {9}


@pytest.mark.line("X-055")
def test_the_first_fault_is_told_and_nothing_is_applied() -> None:
    table = Declarations()
    table.apply([resource(2), subscriber(2, 2)])
    faulty: list[Declaration] = [
        ForgetResourceDecl(rid=2),
        subscriber(4),
        resource(3),
        resource(5),
        selection(6),
    ]
    assert refusal(table, *faulty) == (Status.INVALID, 3)
    assert table.subscribers[2].mode == 2
    # The selection is to blame, not who wanted to use it.
    assert refusal(table, subscriber(9), selection(9, "/a?{v >}")) == (Status.INVALID, 9)
    assert refusal(table, subscriber(9), resource(7)) == (Status.INVALID, 9)


@pytest.mark.line("X-067")
def test_an_id_without_a_name_is_a_resource_of_its_own() -> None:
    table = Declarations()
    table.apply([subscriber(6), PublisherDecl(rid=6)])
    named = table.named(6)
    assert named is not None
    assert named.resource.path == "@xrce/rid/6"
    changes = table.apply([resource(6, "/lab/t")])
    assert [one.id for one in changes.names] == [6]
    named = table.named(6)
    assert named is not None
    assert named.resource.path == "lab/t"
    assert table.named(7) is None


@pytest.mark.line("X-068")
def test_bindings() -> None:
    table = Declarations()
    table.apply([selection(3), selection(5, "/other")])
    table.apply([binding(3, 9), subscriber(9)])
    table.apply([binding(3, 9)])  # said again
    assert table.names[9] is table.names[3]
    table.apply([ForgetSelectionDecl(sid=3)])
    assert set(table.names) == {5, 9}, "the other id stays"
    assert refusal(table, binding(3, 11)) == (Status.INVALID, 3)
    assert refusal(table, binding(9, 5)) == (Status.CONFLICT, 5)
    assert refusal(table, binding(2, 11)) == (Status.INVALID, 2)
    assert refusal(table, binding(9, 4)) == (Status.INVALID, 4)


@pytest.mark.line("X-069")
def test_forgetting() -> None:
    table = Declarations()
    table.apply([resource(2), PublisherDecl(rid=2), subscriber(2), selection(3), subscriber(3)])
    changes = table.apply([ForgetResourceDecl(rid=2), ForgetSubscriberDecl(id=8)])
    assert [one.id for one in changes.subscribers] == [2]
    assert (set(table.publishers), set(table.subscribers)) == (set(), {3})
    table.apply([ForgetPublisherDecl(id=3), ForgetSubscriberDecl(id=3)])
    assert (set(table.names), table.subscribers) == ({3}, {})
    table.apply([ForgetSelectionDecl(sid=3), ForgetSelectionDecl(sid=3)])
    assert table.names == {}


@pytest.mark.line("X-070")
def test_sessions_do_not_share_ids() -> None:
    one, other = Declarations(), Declarations()
    one.apply([resource(2, "/a")])
    other.apply([resource(2, "/b")])
    assert one.names[2].resource.path == "a"
    assert other.names[2].resource.path == "b"


def test_both_ends_of_a_session_share_ids() -> None:
    device = Declarations()
    broker = Declarations(device.names)
    device.apply([resource(2, "/a"), subscriber(2)])
    assert refusal(broker, resource(2, "/b")) == (Status.CONFLICT, 2)
    assert broker.subscribers == {}


@pytest.mark.line("X-071")
@pytest.mark.parametrize(
    ("declaration", "status"),
    [
        (subscriber(2, 0), Status.UNSUPPORTED),
        (subscriber(2, 5), Status.UNSUPPORTED),
        (subscriber(2, 3, 0, 0, 0), Status.INVALID),
        (subscriber(2, 3, 0, 10, 0), Status.INVALID),
        (subscriber(2, 4, 0, 10, 10), Status.INVALID),
        (subscriber(2, 4, 0, 2**32 + 1, 10), Status.INVALID),
    ],
)
def test_modes_and_windows_that_are_none(declaration: SubscriberDecl, status: Status) -> None:
    assert refusal(Declarations(), declaration) == (status, 2)


@pytest.mark.line("X-074")
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("xrce://", Status.INVALID),
        ("xrce://a/", Status.INVALID),
        ("xrce://a b", Status.INVALID),
        ("xrce://a$", Status.INVALID),
        ("xrce://a/..", Status.INVALID),
        ("a", Status.INVALID),
        ("xrce://\udce9", Status.INVALID),
        ("xrce://a#sticky", Status.UNSUPPORTED),
        ("xrce://a/property", Status.INVALID),
        ("xrce://" + "a" * 1_024, Status.NO_SPACE),
    ],
)
def test_names_that_are_refused(name: str, status: Status) -> None:
    octets = name.encode(errors="surrogateescape")
    assert refusal(Declarations(), ResourceDecl(rid=2, resource=octets)) == (status, 2)


@pytest.mark.line("X-120")
def test_tags_and_properties_agree() -> None:
    table = Declarations()
    assert refusal(table, resource(2, "/a#transient", p8=b"\2")) == (Status.INVALID, 2)
    assert refusal(table, resource(2, "/a", p8=b"\3")) == (Status.INVALID, 2)
    assert refusal(table, resource(2, "/a#unreliable", p6=b"\1")) == (Status.INVALID, 2)
    assert refusal(table, resource(2, "/a", p6=b"\2")) == (Status.INVALID, 2)
    table.apply([resource(2, "/a#persistent", p8=b"\2"), resource(4, "/b", p8=b"\1")])
    assert table.names[2].qualities.offered is Level.PERSISTENT
    assert table.names[4].qualities.requested is Level.TRANSIENT
    both = Declarations()
    both.apply([resource(2, "/**#{persistent,transient}")])
    assert both.names[2].qualities.requested is Level.TRANSIENT
    assert both.names[2].qualities.offered is Level.PERSISTENT
    bad = SubscriberDecl(id=2, mode=1, properties=(Property(id=DURABILITY, value=b"\7"),))
    assert refusal(both, bad) == (Status.INVALID, 2)
    bad_publisher = PublisherDecl(rid=2, properties=(Property(id=RELIABILITY, value=b"\7"),))
    assert refusal(both, bad_publisher) == (Status.INVALID, 2)


@pytest.mark.line("X-078")
def test_nobody_publishes_properties() -> None:
    table = Declarations()
    table.apply([selection(3, "/lab/t/property"), subscriber(3)])
    assert refusal(table, PublisherDecl(rid=3)) == (Status.INVALID, 3)


def test_global_selections_come_from_brokers() -> None:
    said = SelectionDecl(global_=True, sid=9, query=b"/a")
    assert refusal(Declarations(), said) == (Status.UNSUPPORTED, 9)
    device = Declarations(global_ids=True)
    device.apply([said, BindingDecl(global_=True, old_id=9, new_id=11)])
    assert set(device.names) == {9, 11}
    broker = Declarations()
    broker.apply([selection(9)])
    bound = BindingDecl(global_=True, old_id=9, new_id=11)
    assert refusal(broker, bound) == (Status.UNSUPPORTED, 11)


def test_bounds_of_a_session() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_names_count=2, xrce_endpoints_count=1)
    table = Declarations(limits=limits)
    table.apply([resource(2), selection(3), subscriber(2), PublisherDecl(rid=2)])
    assert refusal(table, resource(4)) == (Status.NO_SPACE, 4)
    assert refusal(table, subscriber(3)) == (Status.NO_SPACE, 3)
    assert refusal(table, PublisherDecl(rid=3)) == (Status.NO_SPACE, 3)
    table.apply([subscriber(2, 2)])  # in place of the one that is there


@pytest.mark.line("X-081")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("/a?{luminosity >}", Status.INVALID),
        ("/a?{v>1", Status.INVALID),
        ("/a#{v>0}", Status.INVALID),
        ("/a?{foo(1)}", Status.UNSUPPORTED),
        ("/a?{SELECT v FROM t}", Status.UNSUPPORTED),
        ("/a?{js: true}", Status.UNSUPPORTED),
        ("/a?{" + "NOT " * 40 + "v}", Status.NO_SPACE),
        ("/a?{v='" + "x" * 4_096 + "'}", Status.NO_SPACE),
    ],
)
def test_queries_that_are_refused(query: str, status: Status) -> None:
    assert refusal(Declarations(), selection(3, query)) == (status, 3)


@pytest.mark.line("X-082")
def test_parameters_of_a_query() -> None:
    table = Declarations(vendor=True)
    table.apply([selection(3, "/a?{v > %0 AND room = %1}", "3", "'music'")])
    assert table.names[3].selection.predicate == "v > 3 AND room = 'music'"
    assert refusal(table, selection(5, "/a?{v > %1}", "3")) == (Status.INVALID, 5)
    assert refusal(table, selection(5, "/a?{v > %0}")) == (Status.INVALID, 5)
    broken = SelectionDecl(
        global_=False, sid=5, query=b"/a", properties=(Property(id=PARAMETERS, value=b"\2\1"),)
    )
    assert refusal(table, broken) == (Status.INVALID, 5)
    # Another vendor's property 5 is something else.
    assert refusal(Declarations(), selection(5, "/a?{v > %0}", "3")) == (Status.INVALID, 5)


@pytest.mark.line("X-083")
def test_forms_of_one_selection() -> None:
    table = Declarations()
    for query in ("xrce://x#?", "xrce://x#", "xrce://x", "/x?{}", "/x?{ }"):
        table.apply([selection(3, query)])
    table.apply([selection(5, "/x?")])
    assert table.names[3].resource.path == "x"
    assert table.names[5].resource.path == "x?"


def test_a_field_that_the_known_type_has_not_is_refused() -> None:
    layout = parse_layout("{v: i32}")

    class Typed(Rules):
        def layout_of(self, resource: Resource) -> Layout | None:
            return layout if resource.path == "lab/t" else None

    table = Declarations(rules=Typed())
    table.apply([selection(3, "/lab/t?{v > 1}"), selection(5, "/lab/u?{w > 1}")])
    assert refusal(table, selection(7, "/lab/t?{w > 1}")) == (Status.INVALID, 7)


def test_what_is_not_about_an_id_is_refused() -> None:
    assert refusal(Declarations(), CommitDecl(commit_id=1)) == (Status.INVALID, 0)
