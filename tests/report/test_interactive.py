"""What a notebook shows of results: tables, pictures on the caller's axes or new ones, one-look representations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from quietshelf import Shelf, simulate
from quietshelf.privacy.accounting import Assumption, Ledger, gaussian
from quietshelf.report.interactive import plot_tastes
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Result, summary
from quietshelf.serving.shelf.tastes import Tastes

WORLD = Synthetic(items=8, capacity=2, dim=2, contexts="clipped")


@pytest.fixture(autouse=True)
def plt() -> Iterator[Any]:
    """Pyplot without a screen; what was drawn is closed."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


@pytest.fixture(scope="module")
def result() -> Result:
    """Two contestants, three replicates."""
    return simulate(WORLD, ["greedy", "uniform"], horizon=20, replicates=3, seed=1, checkpoints=4)


def tastes(count: int) -> Tastes:
    """An estimate of this many features."""
    theta = np.linspace(-1.0, 1.0, count)
    names = tuple(f"feature {place}" for place in range(count))
    return Tastes(theta, np.full(count, 0.1), np.eye(count), 3, "fine & well", names)


def test_rows_become_a_tidy_table(result: Result) -> None:
    """The same rows, in the same order, as iterating gives; and one line per contestant from the summary."""
    frame = result.to_pandas()
    assert list(frame.columns) == ["label", "replicate", "t", "regret"]
    assert [tuple(row) for row in frame.itertuples(index=False)] == [
        (row.label, row.replicate, row.t, row.regret) for row in result
    ]
    assert list(pd.DataFrame(summary(result))["label"]) == ["greedy", "uniform"]


def test_regret_is_drawn_with_words_and_a_legend(result: Result) -> None:
    """A curve per contestant, from zero to the horizon; the mean at the end is that of the summary."""
    axes = result.plot(title="A small world")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["greedy", "uniform"]
    assert (axes.get_xlabel(), axes.get_title()) == ("visitors", "A small world")
    assert "revenue lost" in axes.get_ylabel()
    for line, row in zip(axes.get_lines(), summary(result), strict=True):
        assert line.get_ydata()[-1] == pytest.approx(row.mean)


def test_axes_of_the_caller_are_drawn_on(result: Result, plt: Any) -> None:
    """No other figure is made."""
    _, (left, right) = plt.subplots(1, 2)
    assert result.plot(left) is left
    assert tastes(3).plot(right) is right
    assert len(plt.get_fignums()) == 1


def test_tastes_are_drawn_first_on_top_with_their_names() -> None:
    """Every feature has its row; zero is marked; bars are two standard errors."""
    axes = tastes(3).plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["feature 0", "feature 1", "feature 2"]
    assert axes.yaxis_inverted()
    (bar,) = axes.containers
    assert np.allclose(bar.lines[0].get_xdata(), [-1.0, 0.0, 1.0])
    assert np.ptp(bar.lines[2][0].get_segments()[0][:, 0]) == pytest.approx(0.4)


def test_the_largest_of_many_are_drawn_and_it_is_said() -> None:
    """Beyond ``most`` the smallest estimates are left out."""
    axes = plot_tastes(list("abcd"), np.array([0.1, -2.0, 1.0, 0.2]), np.array([1.0, np.inf, 1.0, 1.0]), most=2)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "c"]
    assert axes.get_title(loc="left") == "the 2 largest of 4 estimates"


def test_tastes_become_a_table() -> None:
    """One row per feature."""
    frame = tastes(2).to_pandas()
    assert frame.loc["feature 1"].tolist() == [1.0, 0.1]
    assert frame.index.name == "feature"


def test_results_can_be_read_at_a_prompt(result: Result) -> None:
    """Sizes first, then a line each."""
    first, *lines = repr(result).splitlines()
    assert first == "<Result: 2 contestants, 3 replicates of 20 visitors; regret, mean ± s.e."
    assert [line.split()[0] for line in lines] == ["greedy", "uniform"]
    event = gaussian("pair", sensitivity=2.0, noise=2.0, batch=0, assumption=Assumption.EXACT_GRID)
    assert repr(Ledger(budget=1.0).spend(event).promise()) == (
        "<Promise: rho = 0.5, epsilon = 5.222 at delta = 1e-06, to each visit, not each person, 1 event>"
    )


class Checked(HTMLParser):
    """Collects text, and refuses whatever could fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("table", "caption", "tr", "th", "td", "p"), tag
        assert {name for name, _ in attrs} <= {"style"}

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_html_is_plain_escaped_and_fetches_nothing(result: Result) -> None:
    """Whatever labels hold."""
    named = Result(20, result.times, {"<script>": result.regret["greedy"]}, {"<script>": ()}, {"<script>": 1.0}, 1.0)
    shelf = Shelf(items=4, dim=2, capacity=2, rho=1.0)
    for shown, text in (
        (named, "<script>"),
        (tastes(30), "… and 10 more; fine & well"),
        (shelf.privacy(), "epsilon at delta = 1e-06"),
        (shelf, "visitors so far"),
    ):
        parser = Checked()
        parser.feed(shown._repr_html_())
        assert text in parser.text


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [("pandas", "to_pandas", "tables need pandas: pip install '.[data]' in a checkout"),
     ("matplotlib", "plot", "figures need matplotlib: pip install '.[report]' in a checkout")],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(missing: str, call: str, extra: str) -> None:
    """One line that says what to install."""
    made = "Tastes(np.zeros(1), np.ones(1), np.eye(1), 0, '', ('a',))"
    code = f"import sys; sys.modules['{missing}'] = None; import numpy as np; "
    code += "from quietshelf.serving.shelf.tastes import Tastes"
    found = subprocess.run(
        [sys.executable, "-c", f"{code}; {made}.{call}()"], capture_output=True, text=True, check=False
    )
    assert found.stderr.strip().endswith(f"ModuleNotFoundError: {extra}")
