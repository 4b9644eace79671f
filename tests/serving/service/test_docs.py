"""The tables of docs/service.md are those of the code, and settings are read as it says."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from scripts.docs.routes import routes_page

from quietshelf.serving.service import models, problems, settings
from quietshelf.serving.service.catalogue import shelves
from quietshelf.serving.service.http.app import make_app
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings
from quietshelf.serving.service.visitors import contributed

TEXT = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")


def test_the_settings_table_is_that_of_the_code() -> None:
    """Every setting with its default and its words, and no other."""
    rows = [f"| `{each.name}` | `{each.default}` | {each.metadata['says']} |" for each in fields(ServiceSettings)]
    table = TEXT.partition("| setting | default | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows


def test_every_refusal_and_every_shelf_setting_is_told() -> None:
    """A new problem type or shelf setting must be written down."""
    kinds = [kind("x").kind for kind in problems.Problem.__subclasses__() if kind.status < 500 or kind.status == 503]
    for name in {*kinds}:
        assert f"`{name}`" in TEXT
    table = TEXT.partition("## Settings of a shelf")[2].partition("Geometry")[0]
    for field, about in ShelfBody.model_fields.items():
        name = about.alias or field
        (line,) = [row for row in table.splitlines() if f"`{name}`" in row.partition("|")[2].partition("|")[0]]
        assert line.rstrip("| ").endswith("may change" if field in shelves.FREE else "fixed")


def test_settings_come_from_file_environment_and_flags(tmp_path: Path) -> None:
    """Later ones first, unknown ones refused, mistakes by rule and value, passwords never repeated."""
    path = tmp_path / "settings.toml"
    path.write_text('port = 1\ngroup_limit = 2\nhost = "0.0.0.0"\n')
    found = settings.read(path, {"QUIETSHELF_PORT": "2", "QUIETSHELF_GROUP_LIMIT": "3"}, {"port": 4, "host": None})
    assert (found.port, found.group_limit, found.host) == (4, 3, "0.0.0.0")  # noqa: S104 - read back, not listened on
    path.write_text("noise = 0\n")
    with pytest.raises(ValueError, match="settings must be among"):
        settings.read(path, {})
    with pytest.raises(ValueError, match=r"workers must be 1 on SQLite.*got workers=2"):
        settings.read(None, {}, {"workers": 2})
    assert settings.read(None, {}, {"workers": 2, "database": "postgresql://localhost/shop"}).workers == 2
    with pytest.raises(ValueError, match="QUIETSHELF_PORT must be a number, got 'x'"):
        settings.read(None, {"QUIETSHELF_PORT": "x"})
    assert settings.read(None, {}, settings.assigned(["retry_hours=2", "releaser=false"])).retry_hours == 2.0
    for wrong in ("retry_hours", "nothing=1", "port=x", "releaser=perhaps"):
        with pytest.raises(ValueError, match="must be"):
            settings.assigned([wrong])
    with pytest.raises(ValueError, match="database must be a URL") as refused:
        ServiceSettings(database="mysql://me:hidden@host/db")
    assert "hidden" not in str(refused.value)
    assert not {"seed", "noise", "source", "noiseless"} & {each.name for each in fields(ServiceSettings)}


def test_every_example_of_the_api_is_a_valid_request(tmp_path: Path) -> None:
    """As the page shows it: what is copied from there is accepted by its model."""
    service = Service(ServiceSettings(database=f"sqlite:///{tmp_path}/shop.db", secrets=str(tmp_path / "secrets")))
    schemas = make_app(service).openapi()["components"]["schemas"]
    service.store.close()
    shown = [(name, example) for name, schema in schemas.items() for example in schema.get("examples", [])]
    assert {"ShelfBody", "ItemsBody", "OfferBody", "ChoiceBody"} <= {name for name, _ in shown}
    for name, example in shown:
        getattr(contributed if name == "ContributionBody" else models, name).model_validate(example)


def test_the_reference_has_every_route_of_the_service(tmp_path: Path) -> None:
    """Those for devices and for admins too."""
    service = Service(ServiceSettings(database=f"sqlite:///{tmp_path}/shop.db", secrets=str(tmp_path / "secrets")))
    routes = make_app(service).openapi()["paths"]
    service.store.close()
    page = routes_page()
    for path, methods in routes.items():
        assert all(f"`{method.upper()} {path}`" in page for method in methods), path
