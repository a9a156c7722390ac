"""Spans as tests read them: kept in memory, or received by OTLP over HTTP on a real socket."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gym.http.otel import make_tracer
from gym.http.tracing import TRACING
from gym.wire.telemetry import Telemetry


@dataclass(frozen=True)
class Seen:
    """One span."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: Mapping[str, Any]
    failed: bool = False


@contextmanager
def recorded_spans(*, content: bool = False) -> Iterator[Callable[[], list[Seen]]]:
    """Tracing of this process, by the real packages; the function stops it and gives what was recorded."""
    exporter = InMemorySpanExporter()
    tracer = make_tracer(Telemetry(True, "http://nowhere", content), "test", {}, exporter)
    TRACING.tracer = tracer

    def finished() -> list[Seen]:
        tracer.close()
        return [_seen(one) for one in exporter.get_finished_spans()]

    try:
        yield finished
    finally:
        TRACING.tracer = None
        tracer.close()


@dataclass
class Receiver:
    """`raw` has every body as it came, unpacked."""

    url: str = ""
    raw: list[bytes] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)

    def named(self, start: str) -> list[Seen]:
        return [one for one in self.spans if one.name.startswith(start)]


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self._read()
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            receiver.raw.append(body)
            receiver.spans += read_export(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def _read(self) -> bytes:
            """The router sends in pieces, the Python packages say how much it is."""
            if "content-length" in self.headers:
                return self.rfile.read(int(self.headers["content-length"]))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def read_export(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    found = []
    for resource in request.resource_spans:
        named = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                attributes = {one.key: _value(one.value) for one in span.attributes}
                ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
                found.append(Seen(named["service.name"], span.name, *ids, attributes, span.status.code == 2))
    return found


def _seen(span: Any) -> Seen:
    parent = format(span.parent.span_id, "016x") if span.parent else ""
    ids = (format(span.context.trace_id, "032x"), format(span.context.span_id, "016x"), parent)
    return Seen("test", span.name, *ids, dict(span.attributes), not span.status.is_ok and span.status.is_unset is False)


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind) if kind else None
    return [_value(one) for one in found.values] if kind == "array_value" and found is not None else found
