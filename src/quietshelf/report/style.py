"""The style of all matplotlib figures: colour-blind-safe colours, plain axes, no display needed."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietshelf.model.types import FloatArray, require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, the most readable first."""
STYLES = ("-", "--", "-.", ":")
FORMATS = (".png", ".svg", ".pdf")

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
    """Axes to draw on; the figure is written when the block ends, in the format of the path's suffix."""
    with figures([path], size=(width, height)) as (_, grid):
        yield grid[0][0]


@contextmanager
def figures(
    paths: Sequence[Path], *, size: tuple[float, float], shape: tuple[int, int] = (1, 1)
) -> Iterator[tuple[Any, Any]]:
    """A canvas and its grid of axes (rows x columns), written to every path when the block ends."""
    mpl = _matplotlib()
    from matplotlib.figure import Figure

    with mpl.rc_context({**_RC, "svg.hashsalt": paths[0].stem if paths else "none"}):
        canvas = Figure(figsize=size, layout="constrained")
        yield canvas, canvas.subplots(*shape, squeeze=False)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


@contextmanager
def on_axes(ax: Any = None, *, width: float = 7.0, height: float = 4.2) -> Iterator[Any]:
    """The axes given, or those of a new pyplot figure that a notebook shows; in the same style."""
    mpl = _matplotlib()
    with mpl.rc_context(_RC):
        if ax is None:
            from matplotlib import pyplot as plt

            _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        yield ax


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("figures need matplotlib: pip install '.[report]' in a checkout") from error
    return mpl


def curve(axes: Any, x: ArrayLike, mean: FloatArray, half: FloatArray, **style: Any) -> None:
    """Draw a line with a band of its colour."""
    axes.plot(x, mean, **style)
    axes.fill_between(x, mean - half, mean + half, color=style["color"], alpha=0.18, linewidth=0)


def dots(axes: Any, x: ArrayLike, mean: FloatArray, half: FloatArray, **style: Any) -> None:
    """Draw points with error bars that stay above zero, so that a log scale can show them."""
    bars = np.nan_to_num(np.stack([np.minimum(half, 0.999 * mean), half]))
    axes.errorbar(x, mean, yerr=bars, marker="o", markersize=4, capsize=3, **style)


def can_draw(path: Path) -> None:
    """Refuse a figure that cannot be drawn, before the work starts."""
    rule = f"a figure must end in {', '.join(FORMATS)}"
    require(path.suffix in FORMATS, rule, path=str(path))
    with figures([], size=(1.0, 1.0)):
        pass


def look(index: int) -> dict[str, Any]:
    """Colour and line style of the index-th curve; the first 28 all differ."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": STYLES[index // len(COLOURS) % len(STYLES)]}
