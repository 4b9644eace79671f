"""The settings class -> the settings reference."""

from __future__ import annotations

from dataclasses import fields

from scripts.docs.markdown import table

HEAD = """# Settings of the service

Made from the settings class when this site is built. Each can be given in a TOML file (`--config`), in the environment
(`QUIETSHELF_` and the name in capitals: `QUIETSHELF_DATABASE`), or as a flag (`--set NAME=VALUE` for those without one
of their own); flags go before the environment, the environment before the file. None of them alters a guarantee, and
none names a noise source or a seed. What a *shelf* is told (rho, capacity, visits and so on) is in
[the service](../service.md#settings-of-a-shelf) and, field by field, in the [HTTP reference](http.md#shelfbody).
"""


def settings_page() -> str:
    """Every setting with its default and meaning."""
    from quietshelf.serving.service.settings import ServiceSettings

    rows = [(f"`{each.name}`", f"`{each.default}`", each.metadata["says"]) for each in fields(ServiceSettings)]
    return f"{HEAD}\n{table(('setting', 'default', 'meaning'), rows)}\n"
