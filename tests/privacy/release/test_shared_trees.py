"""Trees side by side release what each would release alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.privacy.release.continual import run

from quietshelf.model.types import Streams
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.release.shared_trees import together
from quietshelf.privacy.release.tree import Tree, paper, sound
from quietshelf.privacy.statistics import clip, gram

SIZES: dict[str, Any] = {"horizon": 50, "dim": 3, "capacity": 4}
SEEDS = np.random.SeedSequence(3).spawn(2)


def laws(source: NoiseSource) -> list[Tree]:
    """Three trees, with noise of their own on and off the diagonal."""
    return [sound(0.1, source=source, **SIZES), sound(2.0, source=source, **SIZES), paper(1.0, source=source, **SIZES)]


def test_each_tree_is_the_same_to_the_last_bit() -> None:
    """Sums and noise of every tree, over 50 rounds of two worlds, are those of the tree alone with a like source."""
    grams = gram(clip(np.random.default_rng(1).normal(size=(50, 3, 2, 4, 3))))
    _, joint = run(together(laws(Simulated(Streams(SEEDS)))), grams)
    for place in range(3):
        _, alone = run(laws(Simulated(Streams(SEEDS)))[place], grams[:, place])
        np.testing.assert_array_equal(joint[:, place], alone)


def test_trees_of_other_sizes_or_on_a_grid_are_refused() -> None:
    """What cannot share its draws is not taken together."""
    source = Simulated(np.random.default_rng(2))
    for other in ({"horizon": 51}, {"dim": 4}, {"capacity": 5}):
        with pytest.raises(ValueError, match="alike but for their laws"):
            together([sound(1.0, source=source, **SIZES), sound(1.0, source=source, **{**SIZES, **other})])
    with pytest.raises(ValueError, match="alike but for their laws"):
        together([paper(1.0, source=source, bounded=bounded, **SIZES) for bounded in (True, False)])
    with pytest.raises(ValueError, match="need continuous noise"):
        together([sound(1.0, source=DiscreteGaussian(), **SIZES)])
