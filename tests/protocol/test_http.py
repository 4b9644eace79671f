"""Over real HTTP: status, headers and body of every reply, the metrics of every route, every log line."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from tests.protocol.http_user import HttpUser
from tests.protocol.schedules import HTTP, schedule
from tests.protocol.worlds import compare
from tests.studies.size import FULL, keep

SCHEDULES = 100 if FULL else 5


@pytest.mark.study
def test_no_reply_metric_or_log_line_depends_on_another_visitor() -> None:
    """An answer is neither counted nor logged, whatever it is: in time, late, twice, too large, by a wrong key."""
    began, found = time.monotonic(), Counter[str]()
    for seed in range(SCHEDULES):
        found += compare(schedule(seed, HTTP), HttpUser)
    keep(f"noninterference-http-{SCHEDULES}", **found, differences=0, seconds=round(time.monotonic() - began))
    assert found["releases"] > 0
