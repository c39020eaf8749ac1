"""Graph: who is connected to whom, as far as it is known here."""

from __future__ import annotations

from collections.abc import Mapping

from elea.routing.linkstate.trees import edge_length, edge_share

Links = Mapping[bytes, Mapping[bytes, int]]  # who tells of a link to whom, with its weight


class Graph:
    """Nodes by their ids in wire order, this one first; edges by their places in that list.

    A graph is taken of links that are not changed afterwards. Its edges are computed when they are
    first asked for, which takes long in large networks: without the node's lock.

    Args:
        nodes: Their ids.
        links: What they tell of their links; an edge is a link that both its ends tell of.
    """

    __slots__ = ("_edges", "_links", "nodes")

    def __init__(self, nodes: list[bytes], links: Links | None = None) -> None:
        self.nodes = nodes
        self._links = links or {}
        self._edges: dict[tuple[int, int], float] | None = None

    @property
    def edges(self) -> dict[tuple[int, int], float]:
        """The weights of edges, each from a node to one before it."""
        if self._edges is None:
            self._edges = dict(sorted(self._measured()))
        return self._edges

    def _measured(self) -> list[tuple[tuple[int, int], float]]:
        index_of = {zid: index for index, zid in enumerate(self.nodes)}
        found = []
        for index, zid in enumerate(self.nodes):
            for other, weight in self._links.get(zid, {}).items():
                before = index_of.get(other, index)
                weight_back = self._links.get(other, {}).get(zid)
                if before < index and weight_back is not None:
                    length = edge_length(edge_share(zid, other), weight, weight_back)
                    found.append(((index, before), length))
        return found

    def dot(self, names: list[str]) -> str:
        """The graph in the DOT language, laid out as Eclipse Zenoh does.

        Args:
            names: The labels, in the order of the nodes.

        Example:
            >>> links = {b"a": {b"b": 0}, b"b": {b"a": 0}}
            >>> Graph([b"a", b"b"], links).dot(["a1", "a2"]).splitlines()[2]
            '    1 [ label = "a2" ]'
        """
        lines = [f'    {index} [ label = "{name}" ]' for index, name in enumerate(names)]
        lines += [f'    {a} -- {b} [ label = "{weight}" ]' for (a, b), weight in self.edges.items()]
        return "\n".join(["graph {", *lines, "}", ""])
