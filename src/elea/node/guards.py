"""Guards: a node's policy at work, on the faces of its neighbours and groups.

Sessions of this process are not guarded, as in Eclipse Zenoh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from elea.errors import LocatorError
from elea.fast.egress import Egress, Outlet
from elea.fast.sink import FaceSink
from elea.ids import ZenohId
from elea.limits import Limits
from elea.node.face_guard import FaceGuard, Guarded, Surroundings
from elea.node.holding import Holding
from elea.node.neighbour import Neighbour
from elea.node.ports import LinkInfo
from elea.policy.access import Verdict
from elea.policy.accounts import Accounts
from elea.policy.actions import Action, Flow
from elea.policy.addresses import bucket_of, is_here
from elea.policy.chain import Refusal
from elea.policy.events import LoggedIn, LoggedOut, LoginRefused, OverQuota, PolicyEvent, Refused
from elea.policy.identity import Identity, LinkIdentity
from elea.policy.owners import Owners
from elea.policy.policy import Policy
from elea.policy.quota import Account
from elea.routing.core import Routing

_OVER_QUOTA = "closed here: over its quota"
_RULES_CHANGED = "closed here: access rules changed; it is told everything when it connects again"
_PROTOCOLS = {"wss": "ws"}  # one word for both, as in Eclipse


class Guards:
    """Who is guarded, by what, and what was refused.

    `refused` counts by reason, direction and action. `report` is told of every refusal and login,
    under the node's lock: it must neither block nor raise.

    Args:
        policy: What may pass.
        routing: Of the node.
        egress: Of the node.
        holding: Stops links from being read.
        limits: Of the node.
    """

    def __init__(
        self,
        policy: Policy,
        routing: Routing,
        egress: Egress,
        holding: Holding,
        limits: Limits,
    ) -> None:
        self.refused: Counter[tuple[str, Flow, Action]] = Counter()
        self.report: Callable[[PolicyEvent], None] | None = None
        self._policy = policy
        self.limits = limits
        self.owners = Owners(limits.consumer_owners_count)
        self._holding = holding
        self._faces: dict[int, Guarded] = {}
        self._accounts = Accounts(limits.accounts_left_count)
        self._held: dict[int, int] = {}  # faces that are not read, until when
        self._changed: set[int] = set()  # routers that have to connect again: rules changed
        self._around = Surroundings(
            routing,
            egress,
            routing.now,
            limits.withheld_count,
            self._refusal,
            self._excess,
            self.owners,
        )

    def __len__(self) -> int:
        return len(self._faces)

    @property
    def policy(self) -> Policy:
        """The policy in effect."""
        return self._policy

    def join(self, neighbour: Neighbour, infos: list[LinkInfo]) -> None:
        """A neighbour is there, or has one more link; before its face opens.

        Args:
            neighbour: Who it is.
            infos: What is known of its links.
        """
        user = neighbour.agreed.peer_user
        self.admit(neighbour.zid, user, infos, neighbour.sink, neighbour.outlet, neighbour.links)

    def admit(
        self,
        zid: bytes | None,
        user: str | None,
        infos: list[LinkInfo],
        sink: FaceSink,
        outlet: Outlet,
        links: dict[int, None],
    ) -> None:
        """The same for anything with a face; a group is nobody, and has no id."""
        identity = identity_of(zid, user, infos)
        face = self._faces.get(sink.face_id)
        if face is None:
            face = Guarded(sink.face_id, identity, sink, outlet, links)
            self._faces[sink.face_id] = face
            if zid is not None:
                self._tell(LoggedIn(identity))
        face.identity = identity
        self._guard(face)
        now_ns = self._around.now.ns
        until_ns = self._held.get(sink.face_id, 0)
        if face.account is not None:  # who comes back does not begin with a debt that is paid
            until_ns = max(until_ns, now_ns + face.account.wait_ns(now_ns))
        if until_ns > now_ns:  # a new link of who has sent too much is not read either
            self._hold(face, until_ns)

    def leave(self, face_id: int, reason: str = "") -> None:
        """A neighbour is gone."""
        face = self._faces.pop(face_id, None)
        if face is not None:
            if face.identity.zid:  # a group is nobody
                self._tell(LoggedOut(face.identity, reason))
            self._leave_account(face)
            self._held.pop(face_id, None)
            self._changed.discard(face_id)

    def login_refused(self, info: LinkInfo, reason: str) -> None:
        """Somebody did not become a neighbour."""
        self._tell(LoginRefused(str(info.remote), reason))

    def change(self, policy: Policy) -> None:
        """Another policy applies from now on; neighbours stay."""
        self._policy = policy
        for face in self._faces.values():
            face.told.clear()
            self._leave_account(face)
            self._release(face)
        self._accounts.clear()
        faces = self._around.routing.tables.faces
        for face in list(self._faces.values()):
            guards = self._guard(face)
            known = faces.get(face.face_id)
            if known is not None and known.is_router:
                if any(guard.must_retell() for guard in guards):
                    self._changed.add(face.face_id)
                continue
            for guard in guards:
                guard.review()

    def verdict(self, face_id: int, flow: Flow, action: Action, key: str) -> Verdict | None:
        """What access control says, for operators; None if nothing is guarded there."""
        face = self._faces.get(face_id)
        guard = face and (face.sink.guard if flow is Flow.INGRESS else face.outlet.guard)
        return guard.verdict(action, key) if isinstance(guard, FaceGuard) else None

    def refused_by(self, face_id: int) -> int:
        """How many messages of a face, both ways, were refused."""
        face = self._faces.get(face_id)
        return 0 if face is None else face.refused_count

    def asker(self, face_id: int, request_id: int) -> str:
        """The one who waits for a session's answers: what it has proven, else where it is.

        Addresses of this host are no names: sessions are, as those of this process.
        """
        asking = self._around.routing.queries.asker(face_id, request_id)
        face = None if asking is None else self._faces.get(asking)
        if face is None:
            return f"face:{asking}"
        identity = face.identity
        address = identity.links[0].address if identity.links else ""
        if identity.user is not None or identity.common_names:
            return identity.name
        return f"session:{identity.zid}" if is_here(address) else f"address:{bucket_of(address)}"

    def spend(self, identity: Identity, length: int, now_ns: int) -> tuple[str, int] | None:
        """Charge a message that a service sends for one of its users, who is no neighbour.

        Returns:
            None, or the quota that it exceeds and the nanoseconds to wait.
        """
        account = self._account(identity)
        if account is None:
            return None
        wait_ns = account.wait_ns(now_ns)
        if wait_ns <= 0:
            account.spend(length, now_ns)
        else:
            self._tell(OverQuota(identity, account.quota.id, False))
        return None if wait_ns <= 0 else (account.quota.id, wait_ns)

    def hold_debtors(self, debts: dict[int, int]) -> None:
        """Do not read faces for as many nanoseconds as stand beside them; then `debts` are paid."""
        now_ns = self._around.now.ns
        for face_id, rest_ns in debts.items():
            face = self._faces.get(face_id)
            if face is not None:
                self._hold(face, now_ns + rest_ns)
        debts.clear()

    def next_timer_ns(self) -> int | None:
        """When `overdue` wants to be called."""
        if self._changed:
            return self._around.now.ns
        return min(self._held.values(), default=None)

    def overdue(self, now_ns: int) -> list[tuple[int, str]]:
        """Read those again who have waited long enough; the faces to be closed, and why."""
        found = [(face_id, _RULES_CHANGED) for face_id in sorted(self._changed)]
        self._changed.clear()
        for face_id, until_ns in list(self._held.items()):
            face = self._faces[face_id]
            if now_ns < until_ns:
                continue
            if face.account is None:  # another identity, and that has no quota
                self._release(face)
                continue
            wait_ns = face.account.wait_ns(now_ns)
            if face.account.is_overdue(now_ns):
                self._tell(OverQuota(face.identity, face.account.quota.id, True))
                found.append((face_id, _OVER_QUOTA))
            elif wait_ns > 0:
                self._held[face_id] = now_ns + wait_ns
            else:
                self._release(face)
        return found

    def _guard(self, face: Guarded) -> list[FaceGuard]:
        """Give a face the guards that the policy asks for; those that check rules, both ways."""
        account = self._account(face.identity)
        if account is not face.account:
            self._leave_account(face)
            self._release(face)
            face.account = account
        if account is not None:
            self._accounts.join(account, face.face_id)
        made = {}
        for flow in Flow:
            chain = self._policy.chain(face.identity, flow, self.limits)
            made[flow] = FaceGuard(face, chain, self._around), bool(chain)
        ingress, checks = made[Flow.INGRESS]
        face.sink.guard = ingress if checks or face.account is not None else None
        egress, checks = made[Flow.EGRESS]
        face.outlet.guard = egress if checks else None
        return [ingress, egress]

    def _account(self, identity: Identity) -> Account | None:
        """The account that an identity has, or had before it left; None without a quota."""
        quota = self._policy.quota(identity)
        if quota is None:
            return None
        return self._accounts.get(quota, identity.name, self._around.now.ns)

    def _leave_account(self, face: Guarded) -> None:
        account, face.account = face.account, None
        if account is not None:
            self._accounts.leave(account, face.face_id, self._around.now.ns)

    def _refusal(self, face: Guarded, refusal: Refusal) -> None:
        self.refused[refusal.reason, refusal.flow, refusal.action] += 1
        self._tell(Refused(face.identity, refusal))

    def _excess(self, face: Guarded) -> None:
        """A neighbour sends more than it may: read no more of it for now."""
        account = face.account
        assert account is not None  # whose excess it is
        now_ns = self._around.now.ns
        for face_id in account.faces:
            one = self._faces[face_id]
            if face_id not in self._held:
                self._tell(OverQuota(one.identity, account.quota.id, False))
            self._hold(one, now_ns + account.wait_ns(now_ns))

    def _hold(self, face: Guarded, until_ns: int) -> None:
        for link_id in face.links:
            self._holding.pause(link_id, True)
        self._held[face.face_id] = max(until_ns, self._held.get(face.face_id, 0))

    def _release(self, face: Guarded) -> None:
        if self._held.pop(face.face_id, None) is not None:
            for link_id in face.links:
                self._holding.pause(link_id, False)

    def _tell(self, event: PolicyEvent) -> None:
        if self.report is not None:
            self.report(event)


def identity_of(zid: bytes | None, user: str | None, infos: list[LinkInfo]) -> Identity:
    """Who a neighbour is, by what its links prove."""
    links = tuple(
        LinkIdentity(
            protocol=_PROTOCOLS.get(info.scheme, info.scheme),
            interfaces=info.interfaces,
            common_name=info.peer_common_name,
            address=_host(info),
        )
        for info in infos
    )
    name = "" if zid is None else str(ZenohId.from_bytes(zid))
    return Identity(zid=name, user=user, links=links)


def _host(info: LinkInfo) -> str:
    try:
        return info.remote.host_port()[0]
    except LocatorError:
        return str(info.remote)  # a path
