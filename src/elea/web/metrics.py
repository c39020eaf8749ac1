"""What the node and the service counted, for Prometheus.

No label holds a key or anything else that strangers can make up; the number of series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from elea.web.names import METRICS

_SUFFIXES: Final = {"counter": "_total", "info": "_info"}


class Counted(Protocol):
    """One metric of a node: its name, its type, what it is, and its values by label."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def samples(self) -> Sequence[tuple[Mapping[str, str], int | float]]: ...


class Collect(Protocol):
    """What gives the metrics of the node; any thread may call it."""

    def __call__(self, *, per_transport: bool) -> Iterable[Counted]: ...


class RestMetrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        def counter(name: str) -> Counter:
            _, labels, meaning = METRICS[name]
            return Counter(name, meaning, labels, registry=None)

        self.requests = counter("elea_rest_requests")
        self.refusals = counter("elea_rest_refusals")
        self.stream_samples = counter("elea_rest_stream_samples")
        self.stream_dropped = counter("elea_rest_stream_dropped")
        self.replies_dropped = counter("elea_rest_replies_dropped")
        self.ui_frames = counter("elea_ui_frames")
        self.ui_bytes = counter("elea_ui_bytes")

        def gauge(name: str) -> Gauge:
            return Gauge(name, METRICS[name][2], registry=None)

        self.streams = gauge("elea_rest_streams")
        self.ui_connections = gauge("elea_ui_connections")

    def text(
        self, accept: str, collect: Collect | None, *, per_transport: bool
    ) -> tuple[bytes, str]:
        """All of it in the format that is asked for, and the content type of that."""
        registry = CollectorRegistry(auto_describe=False)
        if collect is not None:
            registry.register(_Node(lambda: collect(per_transport=per_transport)))
        for one in vars(self).values():
            registry.register(one)
        encode, content_type = choose_encoder(accept)
        return encode(registry), content_type


class _Node(Collector):
    def __init__(self, collect: Callable[[], Iterable[Counted]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        for one in self._collect():
            metric = Metric(one.name, one.help, one.kind)
            for labels, value in one.samples:
                metric.add_sample(one.name + _SUFFIXES.get(one.kind, ""), dict(labels), value)
            yield metric
