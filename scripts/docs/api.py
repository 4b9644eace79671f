"""The Python reference: a list of public names, which mkdocstrings fills from their docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEAD = """# Python API

The public API, generated from docstrings. Anything not listed here may change without notice. Arrays carry
leading batch axes `...`; letters are those of the [notation](../notation.md).
"""
PUBLIC = {
    "A shelf": [
        "quietshelf.Shelf",
        "quietshelf.serving.shelf.tastes.Tastes",
        "quietshelf.model.types.Offer",
        "quietshelf.privacy.release.comparison.Comparison",
        "quietshelf.serving.shelf.ShelfError",
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
        "quietshelf.data.tables.number",
        "quietshelf.data.tables.log_number",
        "quietshelf.data.tables.category",
        "quietshelf.data.tables.flag",
        "quietshelf.data.tables.embedding",
        "quietshelf.data.tables.ignore",
        "quietshelf.data.tables.read_table",
    ],
    "Simulation": [
        "quietshelf.simulate",
        "quietshelf.contestant",
        "quietshelf.research.loop.Contestant",
        "quietshelf.research.loop.Result",
        "quietshelf.research.loop.summary",
        "quietshelf.research.loop.Summary",
        "quietshelf.research.environments.Synthetic",
        "quietshelf.research.environments.Shop",
    ],
    "A log": [
        "quietshelf.PriorFile",
        "quietshelf.research.estimators.ChoiceModel",
        "quietshelf.research.estimators.from_long",
        "quietshelf.research.estimators.LongRounds",
        "quietshelf.research.estimators.ScalesNotDeclared",
        "quietshelf.research.estimators.CollinearFeatures",
        "quietshelf.data.logs.reading.read_log",
        "quietshelf.data.logs.reading.as_log",
        "quietshelf.data.logs.reading.from_wide",
        "quietshelf.data.logs.reading.BadLog",
        "quietshelf.data.logs.encoded.data_dependent",
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
"""The public names, by purpose."""
DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


def api_page() -> str:
    """A section per purpose, with a directive per name."""
    parts = [HEAD]
    for purpose, names in PUBLIC.items():
        parts += [f"## {purpose}", *map(_directive, names)]
    return "\n\n".join(parts) + "\n"


def _directive(name: str) -> str:
    """The directive of a name; `Shelf`, spread over several files, includes inherited members."""
    inherits = "\n    options:\n      inherited_members: true" if name == "quietshelf.Shelf" else ""
    return f"::: {name}{inherits}"


def fenced(text: str) -> str:
    r"""Fence the examples of a docstring, because Markdown reads >>> as a quotation.

    >>> fenced("Adds.\n\n" + 3 * ">" + " 1 + 1\n2\n\nDone.").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Done.']
    """
    return DOCTEST.sub(lambda match: f"```pycon\n{match.group()}\n```", text)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring; mkdocs.yml names it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called before the docstring is rendered."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
