"""Settings of the service: one table, read from a TOML file, the environment and flags; later sources win.

No setting alters a guarantee: that is part of each shelf. No setting names a noise source or a seed: noise comes from
the operating system.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from quietshelf.model.types import integer, positive, require
from quietshelf.serving.service.logs import LEVELS

PREFIX = "QUIETSHELF_"
ROOT_PATH = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._~-]*)*")


def _setting(default: Any, says: str) -> Any:
    return field(default=default, metadata={"says": says})


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The table of settings; docs/service.md prints each field's ``says``."""

    database: str = _setting("sqlite:///quietshelf.db", "a SQLite file or a PostgreSQL URL")
    secrets: str = _setting("quietshelf-secrets", "folder outside the database for the person key and the epoch file")
    admin_key: str = _setting("", "file with the first admin key, such as a container's secret; empty: one is created")
    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(8080, "port to listen on")
    root_path: str = _setting("", "path under which a proxy serves the service, such as /shelf; empty: at the root")
    workers: int = _setting(1, "API processes on this machine; more than one requires PostgreSQL")
    releaser: bool = _setting(True, "whether this machine may make releases; one of those that may is elected")
    connections: int = _setting(512, "most open connections per process; further ones are closed")
    body_limit: int = _setting(4_194_304, "largest request body in bytes, except for streamed uploads")
    offer_limit: int = _setting(262_144, "largest body of an offer request or a contribution, in bytes")
    upload_limit: int = _setting(4_294_967_296, "largest streamed upload of items, in bytes")
    candidates_limit: int = _setting(10_000, "most items named in one list of one request")
    request_seconds: float = _setting(30.0, "most seconds for one request")
    group_limit: int = _setting(256, "most writes that share one transaction")
    batch_limit: int = _setting(2_000_000, "most visitors in one batch; their data is kept until it is released")
    release_seconds: float = _setting(1.0, "seconds a small batch's release may take before later visitors wait")
    poll_seconds: float = _setting(1.0, "seconds between checks for keys, batches and shelves changed elsewhere")
    retry_hours: float = _setting(
        24.0, "least hours for which an Idempotency-Key is remembered; at least one for a ticket"
    )
    origins: str = _setting("", "comma-separated origins of pages that may use visitor tickets: https://shop.example")
    operator: str = _setting("", "operator's name as visitors know it, shown on privacy statements and in page footers")
    contact: str = _setting("", "where visitors can ask: an email address, or a page that begins with https://")
    admin_log_days: float = _setting(400.0, "days for which the admin log keeps an entry")
    traces: bool = _setting(False, "whether OpenTelemetry traces counted requests; needs the extra otel")
    log_level: str = _setting("info", "debug, info, warning or error")

    def __post_init__(self) -> None:
        integer("port", self.port, high=65535)
        limits = [each.name for each in fields(self) if each.name.endswith("_limit")]
        for name in ("workers", "connections", *limits):
            integer(name, getattr(self, name))
        for name in ("request_seconds", "poll_seconds", "retry_hours", "admin_log_days"):
            positive(name, getattr(self, name))
        require(self.release_seconds >= 0, "release_seconds must be at least 0", release_seconds=self.release_seconds)
        rule = "root_path must begin with / and end without, in letters, digits, ., _, ~ and -"
        require(ROOT_PATH.fullmatch(self.root_path) is not None, rule, root_path=self.root_path)
        require(self.log_level in LEVELS, f"log_level must be one of {', '.join(LEVELS)}", log_level=self.log_level)
        for each in self.allowed_origins:
            plain = re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?", each) is not None
            require(plain, "origins must be written https://shop.example, without a path or a star", origins=each)
        for name in ("operator", "contact"):
            require(getattr(self, name).isprintable(), f"{name} must be one line", **{name: getattr(self, name)})
        known = self.database.startswith(("sqlite:///", "postgresql"))
        require(known, "database must be a URL that starts with sqlite:/// or postgresql", database=self.shown)
        alone = "workers must be 1 on SQLite, which has a single writer (use PostgreSQL for more)"
        require(self.workers == 1 or not self.database.startswith("sqlite"), alone, workers=self.workers)

    @property
    def allowed_origins(self) -> list[str]:
        """The origins as a list."""
        return [each.strip() for each in self.origins.split(",") if each.strip()]

    @property
    def url(self) -> str:
        """The database with its driver."""
        kind, _, place = self.database.partition("://")
        return f"postgresql+psycopg://{place}" if kind == "postgresql" else self.database

    @property
    def shown(self) -> str:
        """The database without its password."""
        head, at, tail = self.database.rpartition("@")
        return f"{head.partition('://')[0]}://...@{tail}" if at else self.database

    def to_environment(self) -> dict[str, str]:
        """The same table as environment variables."""
        return {PREFIX + each.name.upper(): str(getattr(self, each.name)) for each in fields(self)}


def read(
    path: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> ServiceSettings:
    """Read the settings: flags override the environment, which overrides the file, which overrides the defaults."""
    names = {each.name: each for each in fields(ServiceSettings)}
    given: dict[str, Any] = {}
    if path is not None:
        given |= _table(path)
    unknown = sorted(set(given) - set(names))
    require(not unknown, f"settings must be among {', '.join(names)}", unknown=unknown)
    for name in names:
        value = (os.environ if environment is None else environment).get(PREFIX + name.upper())
        if value is not None:
            given[name] = _parsed(PREFIX + name.upper(), value, names[name].default)
    given |= {name: value for name, value in (flags or {}).items() if value is not None}
    return ServiceSettings(**given)


def assigned(texts: Sequence[str]) -> dict[str, Any]:
    """Parse settings written NAME=VALUE.

    >>> assigned(["group_limit=64", "releaser=false"])
    {'group_limit': 64, 'releaser': False}
    """
    defaults = {each.name: each.default for each in fields(ServiceSettings)}
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        require(bool(sign), "a setting must be written NAME=VALUE", setting=name)
        require(name in defaults, f"settings must be among {', '.join(defaults)}", setting=name)
    return {name: _parsed(name, value, defaults[name]) for name, _, value in pairs}


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"settings must be written NAME = VALUE (TOML), got {path}: {error}") from None


def _parsed(name: str, text: str, default: Any) -> Any:
    if isinstance(default, bool):
        known = {"true": True, "false": False}
        require(text.lower() in known, f"{name} must be true or false", value=text)
        return known[text.lower()]
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None
