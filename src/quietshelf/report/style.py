"""One look for all figures: colours that the colour-blind tell apart, plain axes, no dependence on a screen."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, the readable ones first."""
STYLES = ("-", "--", "-.", ":")

_RC = {
    "figure.dpi": 150,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
}


@contextmanager
def figure(path: Path, *, width: float = 7.0, height: float = 4.2) -> Iterator[Any]:
    """Axes to draw on; the figure is written when the block ends, in the format that the path's suffix names."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("figures need matplotlib: pip install 'quietshelf[report]'") from error
    with mpl.rc_context(_RC):
        canvas = Figure(figsize=(width, height), layout="constrained")
        yield canvas.subplots()
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path)


def look(index: int) -> dict[str, Any]:
    """Colour and line of the index-th curve; no two of the first 28 are alike."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}
