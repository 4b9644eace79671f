"""OpenTelemetry traces, if the operator asks for them: one span per counted request, and nothing private.

A span holds method, route, status and duration, as the metrics do: no address, body, shelf or offer. Answers and
erasures have no span, since their number and times are private. A `traceparent` header joins a span to the shop's own
trace; nothing else of the caller's context is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from quietshelf.__about__ import __version__

Trace = Callable[[str, str, int, float, str | None], None]
"""Called at the end of a request: method, route, status, seconds, and the caller's `traceparent`."""
MISSING = "traces need OpenTelemetry: pip install '.[otel]' in a checkout"


def untraced(_method: str, _route: str, _status: int, _seconds: float, _parent: str | None) -> None:
    """Do nothing: the operator asked for no traces."""


def tracer(*exporters: Any) -> Trace:
    """Send spans to these exporters, or to where the variables OTEL_EXPORTER_OTLP_... point."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{MISSING} ({error})") from None
    resource = Resource.create({"service.name": "quietshelf", "service.version": __version__})
    provider, propagator = TracerProvider(resource=resource), TraceContextTextMapPropagator()
    for each in exporters:
        provider.add_span_processor(SimpleSpanProcessor(each))
    if not exporters:
        provider.add_span_processor(BatchSpanProcessor(_otlp()))
    spans = provider.get_tracer("quietshelf", __version__)

    def trace(method: str, route: str, status: int, seconds: float, parent: str | None) -> None:
        end = time.time_ns()
        span = spans.start_span(
            f"{method} {route}",
            context=propagator.extract({} if parent is None else {"traceparent": parent}),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "http.route": route, "http.response.status_code": status},
            start_time=end - round(1e9 * seconds),
        )
        if status >= 500:
            span.set_status(StatusCode.ERROR)
        span.end(end)

    return trace


def _otlp() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{MISSING} ({error})") from None
    return OTLPSpanExporter()
