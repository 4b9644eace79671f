"""Whether studies run at full size, and where what they find is kept."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FULL = os.environ.get("QUIETSHELF_STUDY") == "full"
"""Set by ``make study``; ``make test`` runs the same code in a reduced form."""
FOLDER = Path("out/study")


def keep(name: str, **found: Any) -> None:
    """Write what a study found where reports can read it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
