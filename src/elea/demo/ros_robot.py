"""The ROS 2 robot: a session that speaks rmw_zenoh's format, with the tokens of a node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from elea.demo.ledger import SENT, ros_id
from elea.demo.member import Member
from elea.demo.plan import ODOM, ODOM_TYPE, ROS_DOMAIN, ROS_NAME
from elea.errors import LinkError
from elea.ros.formats.qos import History, QoS
from elea.ros.node import Node
from elea.session.session import Session

if TYPE_CHECKING:
    from elea.demo.fleet import Fleet

NODE: Final = "base"
_MATCH_S: Final = 30.0
_POLL_S: Final = 0.02
_QOS: Final = QoS(history=History.KEEP_ALL)  # waits for room; others drop


class RosRobot(Member):
    """One node, `/ros_01/base`, that publishes its odometry.

    Args:
        fleet: The fleet it belongs to.
        session: Opened by the fleet, and closed by this.
    """

    def __init__(self, fleet: Fleet, session: Session) -> None:
        super().__init__(fleet, ROS_NAME)
        self._session = session

    def live(self) -> None:
        """Publish what is due, and stay until the fleet leaves.

        Raises:
            LinkError: the topic is not recorded.
        """
        fleet = self._fleet
        with (
            self._session as session,
            Node(NODE, namespace=f"/{ROS_NAME}", session=session, domain=ROS_DOMAIN) as node,
        ):
            publisher = node.create_publisher(ODOM_TYPE, ODOM.name, qos=_QOS)
            until_s = time.monotonic() + _MATCH_S
            while not publisher.is_matched:
                if time.monotonic() > until_s:
                    raise LinkError(f"no recorder subscribes to {publisher.key}")
                time.sleep(_POLL_S)
            fleet.ready.wait()
            gid = publisher.token.gid or b""
            for count, due in enumerate(fleet.plan.due_of(ODOM), 1):
                if not self.waited(fleet.start_s + due.at_s):
                    break
                publisher.publish(fleet.plan.odometry(due, time.time_ns()))
                fleet.ledger.write(publisher.key, [ros_id(gid, count)], SENT)
            self.done.set()
            fleet.may_leave.wait()
