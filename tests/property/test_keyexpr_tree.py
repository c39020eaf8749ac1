"""A KeyExprTree answers as a dictionary that is scanned with the same matcher."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.strategies_keyexpr import expression_texts, key_texts

from elea.keyexpr.match import includes, intersects
from elea.keyexpr.tree import KeyExprTree

queries = st.one_of(expression_texts, key_texts)


def tree_of(keys: list[str]) -> KeyExprTree[str]:
    tree: KeyExprTree[str] = KeyExprTree()
    for key in keys:
        tree.insert(key, key)
    return tree


@settings(max_examples=200)
@given(st.lists(expression_texts, unique=True, max_size=25), st.lists(queries, max_size=10))
def test_every_look_up_equals_a_linear_scan(keys: list[str], asked: list[str]) -> None:
    tree = tree_of(keys)
    for query in asked:
        assert sorted(tree.intersecting(query)) == sorted(k for k in keys if intersects(k, query))
        assert sorted(tree.included_by(query)) == sorted(k for k in keys if includes(query, k))
        assert sorted(tree.including(query)) == sorted(k for k in keys if includes(k, query))


@settings(max_examples=200)
@given(
    st.lists(expression_texts, unique=True, max_size=25), st.lists(queries, min_size=1, max_size=25)
)
def test_many_look_ups_equal_a_linear_scan(keys: list[str], asked: list[str]) -> None:
    tree = tree_of(keys)
    for (ends, found), matches in (
        (tree.intersecting_each(asked), intersects),
        (tree.including_each(asked), includes),
    ):
        starts = [0, *ends[:-1]]
        for query, start, end in zip(asked, starts, ends, strict=True):
            assert sorted(found[start:end]) == sorted(k for k in keys if matches(k, query))


@given(st.lists(expression_texts, unique=True, max_size=12), queries)
def test_results_depend_on_the_insertions_alone(keys: list[str], query: str) -> None:
    assert tree_of(keys).intersecting(query) == tree_of(keys).intersecting(query)
    assert tree_of(keys).items() == tree_of(keys).items()


class TreeMachine(RuleBasedStateMachine):
    """Insertions and removals in any order, beside a dictionary."""

    @initialize()
    def start(self) -> None:
        self.tree: KeyExprTree[int] = KeyExprTree()
        self.model: dict[str, int] = {}

    @rule(key=expression_texts, value=st.integers())
    def insert(self, key: str, value: int) -> None:
        self.tree.insert(key, value)
        self.model[key] = value

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.model:
            key = data.draw(st.sampled_from(sorted(self.model)))
            assert self.tree.remove(key) == self.model.pop(key)

    @rule(key=expression_texts)
    def remove_unknown(self, key: str) -> None:
        if key not in self.model:
            with pytest.raises(KeyError):
                self.tree.remove(key)

    @rule(query=queries)
    def look_up(self, query: str) -> None:
        expected = [value for key, value in self.model.items() if intersects(key, query)]
        assert sorted(self.tree.intersecting(query)) == sorted(expected)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert dict(self.tree.items()) == self.model
        assert len(self.tree) == len(self.model)
        assert sorted(self.tree) == sorted(self.model)
        for key, value in self.model.items():
            assert key in self.tree
            assert self.tree.get(key) == value


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(max_examples=50, stateful_step_count=30)
