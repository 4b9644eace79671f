"""Whatever a request says, the service answers as its OpenAPI page promises, and never with a 500."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from tests.serving.service.harness import inline, offered, stocked
from tests.studies.size import FULL, keep

REQUESTS = 10_000 if FULL else 1_000


@pytest.mark.study
def test_no_request_ends_in_an_internal_error(tmp_path: Path) -> None:
    """Requests made from the OpenAPI description, valid and invalid ones, on a living shelf."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        description = client.get("/openapi.json").json()
        schema = schemathesis.openapi.from_dict(description)
        operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
        assert len(operations) >= 15
        seen: Counter[int] = Counter()
        for operation in operations:
            _try(operation, client, seen, -(-REQUESTS // len(operations)))
        assert sum(seen.values()) >= REQUESTS
        assert seen[200] > 0
        assert max(seen) < 500
        keep(f"fuzz-{REQUESTS}", requests=sum(seen.values()), statuses={str(code): seen[code] for code in sorted(seen)})
        stocked(client, "afterwards")
        assert offered(client, "afterwards").status_code == 200


def _try(operation: Any, client: httpx.Client, seen: Counter[int], count: int) -> None:
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    quiet = [
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ]
    done = 0

    @given(case=operation.as_strategy())
    @settings(max_examples=2 * count, phases=[Phase.generate], suppress_health_check=quiet, database=None)
    def requests(case: Any) -> None:
        nonlocal done
        if case.path_parameters and "shelf" in case.path_parameters and done % 2:
            case.path_parameters["shelf"] = "teas"
        if done < count:
            headers = {**(case.headers or {}), "Authorization": client.headers["Authorization"]}
            case.headers = headers
            response = case.call(base_url=str(client.base_url))
            seen[response.status_code] += 1
            done += 1
            case.validate_response(response, checks=checks)

    while done < count:
        requests()
