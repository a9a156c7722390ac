"""Tracing by OpenTelemetry's own packages: spans in batches, by OTLP over HTTP, from a thread of theirs.

A receiver that is gone costs spans, and nothing else. Imported by `gym.http.tracing` alone, once tracing is on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind as Kind
from opentelemetry.trace import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from gym import __version__
from gym.http.tracing import HeaderPairs, SpanKind
from gym.wire.failures import RolloutError
from gym.wire.telemetry import Telemetry

KINDS: Final = {"server": Kind.SERVER, "client": Kind.CLIENT, "internal": Kind.INTERNAL}
SEND_SECONDS: Final = 5.0  # for one batch; a receiver that needs longer is treated as gone
LONGEST_TEXT: Final = 65536  # characters of one attribute


class OtelSpan:
    def __init__(self, span: trace.Span, content: bool) -> None:
        self._span = span
        self._content = content

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def set(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            if value is not None and value != "":
                self._span.set_attribute(name, _short(value))

    def fail(self, kind: str, message: str) -> None:
        """A message may quote what a model said: it is content."""
        self._span.set_status(Status(StatusCode.ERROR, message[:1000] if self._content else kind))
        self._span.set_attribute("error.type", kind)


class OtelTracer:
    def __init__(self, provider: TracerProvider, *, content: bool) -> None:
        self.content = content
        self._provider = provider
        self._tracer = provider.get_tracer("gym", __version__)

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, Any], caller: HeaderPairs | None = None
    ) -> Iterator[OtelSpan]:
        context = propagate.extract(_text(caller)) if caller is not None else None
        with self._tracer.start_as_current_span(
            name, context, KINDS[kind], record_exception=False, set_status_on_exception=False
        ) as begun:
            span = OtelSpan(begun, self.content)
            span.set(attributes)
            try:
                yield span
            except RolloutError as error:
                span.fail(error.kind, error.message)
                span.set({"gym.failure.kind": error.kind})
                raise
            except asyncio.CancelledError:
                span.fail("cancelled", "cancelled")
                raise
            except BaseException as error:
                span.fail(type(error).__name__, str(error))
                raise

    def annotate(self, attributes: Mapping[str, Any], *, name: str = "") -> None:
        current = trace.get_current_span()
        OtelSpan(current, self.content).set(attributes)
        if name:
            current.update_name(name)

    def outgoing(self) -> list[tuple[bytes, bytes]]:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return [(name.encode(), value.encode("latin-1", "replace")) for name, value in carrier.items()]

    def close(self) -> None:
        self._provider.shutdown()


def make_tracer(
    telemetry: Telemetry, service: str, attributes: Mapping[str, str], exporter: SpanExporter | None = None
) -> OtelTracer:
    """Without an address of its own the exporter reads OTEL_EXPORTER_OTLP_*; OTEL_TRACES_SAMPLER and such hold too."""
    named = {"service.name": service, "service.version": __version__, **attributes}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    url = telemetry.traces_url or None
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)  # each retry is a warning: the end is enough
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=url, timeout=SEND_SECONDS)))
    return OtelTracer(provider, content=telemetry.content)


def _text(headers: HeaderPairs) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}


def _short(value: Any) -> AttributeValue:
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    return value if isinstance(value, (bool, int, float)) else [str(one) for one in value]
