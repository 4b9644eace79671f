"""Structured logs: one JSON object a line, on stderr, with names and numbers but never what a visitor brought or did.

Errors are logged by type and place. Their messages are not: they repeat values of the request.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_threshold = [LEVELS["info"]]


def level(name: str) -> None:
    """Write only what is at least as grave."""
    _threshold[0] = LEVELS[name]


def say(grade: str, event: str, **facts: str | int | float | bool | None) -> None:
    """One line."""
    if LEVELS[grade] >= _threshold[0]:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = {"time": f"{moment}Z", "level": grade, "event": event, **facts}
        try:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # full, closed or none: what is logged matters less than the work
            return


def failed(where: str, error: BaseException) -> None:
    """An error by type and place, without its message."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f"{frame.filename.rpartition('quietshelf/')[2]}:{frame.lineno}" for frame in trace]
    kinds = " < ".join(f"{type(each).__module__}.{type(each).__name__}" for each in _chain(error))
    say("error", "failed", where=where, error=kinds, at=" > ".join(frames[-8:]))


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and len(found) < 5:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
