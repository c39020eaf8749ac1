"""A cancelled query whose replies are all there still has a function at work."""

from __future__ import annotations

import threading

import elea


def test_cancel_returns_when_the_last_call_has_returned() -> None:
    here = {"mode": "peer", "listen": {"endpoints": ["tcp/127.0.0.1:0"]}}
    token = elea.CancellationToken()
    entered, leave = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(reply: elea.Reply) -> None:
        entered.set()
        leave.wait(10)
        done.append("call")

    with elea.open({**here, "scouting": {"multicast": {"enabled": False}}}) as session:
        queryable = session.declare_queryable("q", lambda query: query.reply("q", "now"))
        session.get("q", slow, cancellation_token=token)
        assert entered.wait(10)

        def cancel() -> None:
            token.cancel()
            done.append("cancel")

        canceller = threading.Thread(target=cancel)
        canceller.start()
        leave.set()
        canceller.join(10)
        assert done == ["call", "cancel"]
        queryable.undeclare()
