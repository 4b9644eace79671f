"""Offers that the TypeScript client makes on the device: the same as Python's, and from the real service."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.node import demand_client, node_tests
from tests.device import fixtures
from tests.device.worlds import key_of, on_device
from tests.serving.service.harness import inline

CASES = 1000


def test_typescript_reads_documents_tickets_and_signatures_as_python_writes_them(tmp_path: Path) -> None:
    """What is chosen from a document, contributed to a batch, signed in a ticket, and believed of an envelope."""
    demand_client()
    path = tmp_path / "documents.json"
    path.write_text(json.dumps(fixtures.cases(CASES, 1)), encoding="utf-8")
    node_tests("documents", DOCUMENTS=str(path))


def test_typescript_makes_offers_on_the_device(tmp_path: Path) -> None:
    """Slots, documents, contributions, tickets, leaving and fallback, with a service that is started here."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as service:
        on_device(service)
        signing = service.get("/v1/signing-key").json()["key"]
        url = str(service.base_url).rstrip("/")
        node_tests("device", SERVICE_URL=url, SERVICE_KEY=key_of(service), SIGNING_KEY=signing)
        assert service.get("/v1/shelves/teas").json()["arrivals"] == 11
