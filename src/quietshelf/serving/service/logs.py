"""Structured logs on stderr, one JSON object per line: names and numbers, never anything about a visitor.

Errors are logged by type and place, without their messages, which repeat values of the request. Logs of other packages
(uvicorn, asyncio, NumPy's warnings) take the same form: name, level and place, and a text only if it cannot hold data
of a visitor.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
import warnings
from typing import Any

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
LONGEST = 200
"""Most characters kept of another package's text."""
_threshold = [LEVELS["info"]]


def level(name: str) -> None:
    """Set the lowest level that is written."""
    _threshold[0] = LEVELS[name]


def say(grade: str, event: str, **facts: str | int | float | bool | None) -> None:
    """Write one line."""
    if LEVELS[grade] >= _threshold[0]:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        line = {"time": f"{moment}Z", "level": grade, "event": event, **facts}
        try:
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # full, closed or missing: work matters more than its log
            return


def failed(where: str, error: BaseException) -> None:
    """Log an error by type and place, without its message."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [_place(frame.filename, frame.lineno or 0) for frame in trace]
    say("error", "failed", where=where, error=_kinds(error), at=" > ".join(frames[-8:]))


def take_over() -> None:
    """Redirect everything that this process logs or warns of to these lines, whatever was configured before.

    Servers' access logs are switched off: they would reveal the number and times of answers.
    """
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = not logger.name.endswith(".access")
    logging.root.handlers[:] = [Others()]
    warnings.showwarning = _warned
    threading.excepthook = _thread_ended
    sys.unraisablehook = _unraisable


class Others(logging.Handler):
    """Handles what other packages log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. Only uvicorn's unformatted texts are kept; others may hold anything."""
        grade = next((name for name in reversed(LEVELS) if LEVELS[name] <= record.levelno), "debug")
        error = record.exc_info[1] if record.exc_info else None
        facts: dict[str, Any] = {"logger": record.name, "at": _place(record.pathname, record.lineno)}
        if record.name.startswith("uvicorn"):
            lines = str(record.msg).strip().splitlines() or [""]
            facts["text"] = lines[-1][:LONGEST]  # of a traceback, what went wrong
        if error is not None:
            facts["error"] = _kinds(error)
        say(grade, "logged", **facts)


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    """Replaces `warnings.showwarning`."""
    del message, file, line
    say("warning", "warned", category=category.__name__, at=_place(filename, lineno))


def _thread_ended(of: threading.ExceptHookArgs) -> None:
    if of.exc_value is not None:
        failed(f"thread {of.thread.name if of.thread else ''}", of.exc_value)


def _unraisable(of: Any) -> None:
    if of.exc_value is not None:
        failed("cleaning up", of.exc_value)


def _place(filename: str, line: int) -> str:
    name = filename.rpartition("quietshelf/")[2] if "quietshelf/" in filename else filename.rpartition("-packages/")[2]
    return f"{name}:{line}"


def _kinds(error: BaseException) -> str:
    return " < ".join(f"{type(each).__module__}.{type(each).__name__}" for each in _chain(error))


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and len(found) < 5:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
