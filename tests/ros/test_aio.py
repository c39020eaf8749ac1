"""Nodes on an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.interop.ends import eventually
from tests.ros.robot import fleet, robot

from elea.ros import aio

line = pytest.mark.line
STRING = "std_msgs/msg/String"


@line("R2-603")
def test_messages_callbacks_and_services_on_a_loop() -> None:
    with fleet() as endpoint, robot(endpoint) as talker:
        published = talker.publisher("/robot1/chatter", STRING)
        talker.server(
            "/add", "example_interfaces/srv/AddTwoInts", lambda one: {"sum": one.a + one.b}
        )
        asyncio.run(_on_loop(endpoint, published))


async def _on_loop(endpoint: str, published: Any) -> None:
    got: list[str] = []

    async def heard(message: Any) -> None:
        await asyncio.sleep(0)
        got.append(message.data)
        if message.data == "1":
            raise RuntimeError("the next one comes anyway")

    async def answer(request: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"success": True, "message": "loop"}

    async with aio.Node("inspector", connect=endpoint) as node:
        node.create_subscription(STRING, "/robot1/chatter", heard)
        subscription = await node.subscribe("/robot1/chatter", timeout=20)
        await asyncio.to_thread(published.wait_matching)
        for number in range(3):
            await asyncio.to_thread(published.publish, {"data": str(number)})
        found = []
        async for message in subscription:
            found.append(message.data)
            if len(found) == 3:
                break
        assert found == ["0", "1", "2"]
        assert await asyncio.to_thread(eventually, lambda: got == ["0", "1", "2"])
        client = node.create_client("example_interfaces/srv/AddTwoInts", "/add")
        assert (await client.call({"a": 1, "b": 2}, 20, wait=20)).sum == 3
        node.create_service("std_srvs/srv/Trigger", "~/go", answer)
        own = node.create_client("std_srvs/srv/Trigger", "/inspector/go")
        assert (await own.call({}, 20, wait=20)).message == "loop"
        with pytest.raises(TimeoutError):
            await subscription.take(0.01)
        publisher = node.create_publisher(STRING, "/x")
        publisher.publish({"data": "y"})
        await subscription.close()
        with pytest.raises(StopAsyncIteration):
            await subscription.take()


def test_a_node_is_used_inside_of_async_with() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        _ = aio.Node("x").graph
