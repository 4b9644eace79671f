"""Public names -> the Python reference; mkdocstrings fills it from their docstrings when the site is built."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEAD = """# Python API

Made from docstrings when this site is built. What is not here is not public and may change without notice. Arrays carry
leading batch axes `...`; letters are those of the [notation](../notation.md).
"""
PUBLIC = {
    "A shelf": [
        "quietshelf.Shelf",
        "quietshelf.shelf.tastes.Tastes",
        "quietshelf.types.Offer",
        "quietshelf.release.comparison.Comparison",
        "quietshelf.shelf.ShelfError",
    ],
    "What is promised": [
        "quietshelf.accounting.Promise",
        "quietshelf.accounting.Ledger",
        "quietshelf.accounting.Event",
        "quietshelf.accounting.epsilon_of",
        "quietshelf.accounting.rho_of",
        "quietshelf.accounting.together",
        "quietshelf.accounting.DELTA",
    ],
    "Tables": [
        "quietshelf.Schema",
        "quietshelf.infer",
        "quietshelf.tables.number",
        "quietshelf.tables.log_number",
        "quietshelf.tables.category",
        "quietshelf.tables.flag",
        "quietshelf.tables.embedding",
        "quietshelf.tables.ignore",
        "quietshelf.tables.read_table",
    ],
    "Simulation": [
        "quietshelf.simulate",
        "quietshelf.contestant",
        "quietshelf.loop.Contestant",
        "quietshelf.loop.Result",
        "quietshelf.loop.summary",
        "quietshelf.loop.Summary",
        "quietshelf.environments.Synthetic",
        "quietshelf.environments.Shop",
    ],
    "A log": [
        "quietshelf.PriorFile",
        "quietshelf.estimators.ChoiceModel",
        "quietshelf.estimators.from_long",
        "quietshelf.estimators.LongRounds",
        "quietshelf.estimators.ScalesNotDeclared",
        "quietshelf.estimators.CollinearFeatures",
        "quietshelf.logs.reading.read_log",
        "quietshelf.logs.reading.as_log",
        "quietshelf.logs.reading.from_wide",
        "quietshelf.logs.reading.BadLog",
        "quietshelf.logs.encoded.data_dependent",
        "quietshelf.choice.fit",
        "quietshelf.choice.Fit",
        "quietshelf.assortment.best",
    ],
    "A client of the service": [
        "quietshelf.client.Client",
        "quietshelf.client.AsyncClient",
        "quietshelf.client.Offer",
        "quietshelf.client.Retry",
        "quietshelf.client.Refused",
        "quietshelf.client.ServiceDown",
    ],
}
"""What is shown, by what it is for."""
DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def api_page() -> str:
    """A section for each purpose, a directive for each name."""
    parts = [HEAD]
    for purpose, names in PUBLIC.items():
        parts += [f"## {purpose}", *map(_directive, names)]
    return "\n\n".join(parts) + "\n"


def _directive(name: str) -> str:
    """With what is inherited, where it is from us: a shelf is written in several files."""
    inherits = "\n    options:\n      inherited_members: true" if name == "quietshelf.Shelf" else ""
    return f"::: {name}{inherits}"


def fenced(text: str) -> str:
    r"""A docstring whose examples are code blocks: Markdown takes >>> for quotations.

    >>> fenced("Adds.\n\n" + 3 * ">" + " 1 + 1\n2\n\nDone.").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Done.']
    """
    return DOCTEST.sub(lambda match: f"```pycon\n{match.group()}\n```", text)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring; mkdocs.yml names it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Before the docstring is read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
