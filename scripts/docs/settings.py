"""The settings reference, from the settings class."""

from __future__ import annotations

from dataclasses import fields

from scripts.docs.markdown import table

HEAD = """# Settings of the service

Set each in a TOML file (`--config`), in the environment (`QUIETSHELF_` and the name in capitals, such as
`QUIETSHELF_DATABASE`), or as a flag (`--set NAME=VALUE` if there is no dedicated one). Flags override the
environment, and the environment overrides the file. No setting alters a guarantee, and none chooses a noise source or
a seed. Settings of a *shelf* (rho, capacity, visits and so on) are in [the
service](../service.md#settings-of-a-shelf) and, field by field, in the [HTTP reference](http.md#shelfbody).
"""


def settings_page() -> str:
    """Every setting with its default and meaning."""
    from quietshelf.serving.service.settings import ServiceSettings

    rows = [(f"`{each.name}`", f"`{each.default}`", each.metadata["says"]) for each in fields(ServiceSettings)]
    return f"{HEAD}\n{table(('setting', 'default', 'meaning'), rows)}\n"
