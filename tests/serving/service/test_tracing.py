"""Traces hold what the metrics hold, and nothing of a visitor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.serving.service.harness import answered, inline, offered, service_of, stocked

from quietshelf.serving.service import tracing

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_spans_hold_nothing_of_a_visitor(tmp_path: Path) -> None:
    """Offers on both ways and refusals have one each; answers and erasures none; no value, name or id is anywhere."""
    spans = InMemorySpanExporter()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        service_of(client).metrics.trace = tracing.tracer(spans)
        stocked(client, "secret-shelf")
        headers = {"traceparent": PARENT, "baggage": "person=Anna", "tracestate": "shop=Anna"}
        body = {"features": [0.123456, 7.654321], "person": "Anna Secret"}
        offer = client.post("/v1/shelves/secret-shelf/offers", json=body, headers=headers).json()
        answered(client, offer["offer"], offer["items"][0])
        client.post("/v1/shelves/secret-shelf/erasures", json={"person": "Anna Secret"})
        offered(client, "secret-shelf", features=["wrong 0.123456", 1], person="Anna Secret")
        client.get("/v1/shelves/secret-shelf?delta=0.123456")
    found = spans.get_finished_spans()
    offers = [span for span in found if span.name == "POST /v1/shelves/{shelf}/offers"]
    assert [dict(span.attributes or {})["http.response.status_code"] for span in offers] == [200, 422]
    assert f"{offers[0].get_span_context().trace_id:032x}" == PARENT.split("-")[1]
    known = {"http.request.method", "http.route", "http.response.status_code"}
    assert {name for span in found for name in span.attributes or {}} == known
    written = "".join(span.to_json() for span in found)
    for private in ("0.123456", "7.654321", "Anna", "Secret", "secret-shelf", "choice", "erasures", offer["offer"]):
        assert private not in written
    assert all(not span.events for span in found)


def test_a_service_asked_for_traces_that_it_cannot_make_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the extra: traces that are silently missing would be found out too late."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ModuleNotFoundError, match="traces need OpenTelemetry"):
        tracing.tracer()


def test_the_service_needs_no_opentelemetry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By default nothing of it is imported."""
    for name in [each for each in sys.modules if each.startswith("opentelemetry")]:
        monkeypatch.setitem(sys.modules, name, None)
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        assert offered(client).status_code == 200
