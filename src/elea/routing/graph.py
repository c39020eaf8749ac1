"""Graph: who is connected to whom, as far as it is known here."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Graph:
    """Nodes by their ids in wire order, this one first; edges by their places in that list."""

    nodes: list[bytes]
    edges: dict[tuple[int, int], float] = field(default_factory=dict)  # to their weights

    def dot(self, names: list[str]) -> str:
        """The graph in the DOT language, laid out as Eclipse Zenoh does.

        Args:
            names: The labels, in the order of the nodes.

        Example:
            >>> Graph([b"a", b"b"], {(1, 0): 100.0}).dot(["a1", "a2"]).splitlines()[2:4]
            ['    1 [ label = "a2" ]', '    1 -- 0 [ label = "100.0" ]']
        """
        lines = [f'    {index} [ label = "{name}" ]' for index, name in enumerate(names)]
        lines += [f'    {a} -- {b} [ label = "{weight}" ]' for (a, b), weight in self.edges.items()]
        return "\n".join(["graph {", *lines, "}", ""])
