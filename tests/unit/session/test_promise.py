"""What another thread ends."""

from __future__ import annotations

import threading

import pytest

from elea.session.promise import Promise


def test_who_waits_gets_the_result_and_may_ask_again() -> None:
    promise: Promise[int] = Promise()
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(promise.result()))
    waiting.start()
    assert not promise.done()
    promise.set_result(7)
    waiting.join()
    assert got == [7]
    assert promise.done()
    assert promise.result() == 7


def test_an_error_is_raised() -> None:
    promise: Promise[int] = Promise()
    promise.set_exception(ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        promise.result()


def test_a_function_is_called_whether_it_comes_before_or_after_the_end() -> None:
    called: list[str] = []
    promise: Promise[None] = Promise()
    promise.then(lambda: called.append("before"))
    assert not called
    promise.set_result(None)
    assert called == ["before"]
    promise.then(lambda: called.append("after"))
    assert called == ["before", "after"]
