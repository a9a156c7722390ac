"""Spans of what this process serves and asks. Off until `start_tracing`: nothing of OpenTelemetry is imported."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from gym.wire.telemetry import Telemetry

log = logging.getLogger("gym.tracing")
SpanKind = Literal["server", "client", "internal"]
HeaderPairs = Iterable[tuple[bytes, bytes]]


class Span(Protocol):
    @property
    def trace_id(self) -> str: ...

    def set(self, attributes: Mapping[str, Any]) -> None: ...

    def fail(self, kind: str, message: str) -> None:
        """For what ends without an exception; one that leaves the span is noted by itself."""


class Tracer(Protocol):
    content: bool  # what was said may be reported

    def span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Any], caller: HeaderPairs | None = None
    ) -> AbstractContextManager[Span]:
        """`caller`: the headers of a request, whose own trace goes on. Else the span is below the current one."""

    def annotate(self, attributes: Mapping[str, Any], *, name: str = "") -> None:
        """Adds to the current span; renames it where a better name is known by now."""

    def outgoing(self) -> list[tuple[bytes, bytes]]:
        """What a request carries so that its trace goes on at the other end: `traceparent`."""

    def close(self) -> None:
        """Sends what has not been sent yet."""


@dataclass(slots=True)
class Tracing:
    """The one switch of a process. Who asks `tracer is None` first pays nothing else while it is off."""

    tracer: Tracer | None = None


TRACING = Tracing()


def start_tracing(telemetry: Telemetry, service: str, attributes: Mapping[str, str] | None = None) -> Tracer | None:
    """Switches it on and returns what the caller has to `stop_tracing`; None where it stays as it was.

    A process without the packages says so once, and works without spans.
    """
    if not telemetry.on or TRACING.tracer is not None:
        return None
    if not can_trace():
        log.warning(
            "%s reports no spans: OpenTelemetry is not installed here (pip install 'compose-gym[otel]')", service
        )
        return None
    tracer: Tracer = importlib.import_module("gym.http.otel").make_tracer(telemetry, service, attributes or {})
    TRACING.tracer = tracer
    return tracer


def stop_tracing(tracer: Tracer | None) -> None:
    if tracer is not None:
        TRACING.tracer = None if TRACING.tracer is tracer else TRACING.tracer
        tracer.close()


def can_trace() -> bool:
    try:
        return all(importlib.util.find_spec(name) for name in _NEEDED)
    except ModuleNotFoundError:  # of a parent
        return False


_NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
