"""Against known fits on the cleaned hotel files; skipped where the data are absent."""

from __future__ import annotations

import numpy as np
import pytest
from tests.data.logs.hotels import ARRAYS, RAW, TABLES, needs_data

from quietshelf.data.logs.cleaned import read_searches
from quietshelf.data.logs.expedia import clean, encode, read
from quietshelf.model.choice import fit, log_likelihood
from quietshelf.model.choice.maps import feature_map

pytestmark = needs_data


def test_known_fits_are_reached_to_the_printed_digits() -> None:
    """LL(0), the intercept alone, and the intercept with six hotel features, as fitted independently."""
    features, choice, available = read_searches(ARRAYS).rounds(feature_map("item"))
    assert log_likelihood(np.zeros(available.shape), choice, available).sum() == pytest.approx(-16369.9166, abs=5e-5)
    alone = fit(features[..., :1], choice, available)
    assert alone.theta.round(6) == pytest.approx([-2.738643])
    assert alone.log_likelihood == pytest.approx(-13537.45429, abs=5e-6)
    six = fit(features, choice, available)
    known = [-3.378690, 0.219111, 0.523436, -0.453033, -0.042653, 4.418365, -5.252898]
    assert six.theta == pytest.approx(known, abs=5e-7)
    assert six.log_likelihood == pytest.approx(-13028.87004, abs=5e-6)


def test_visitor_features_as_level_shifts_reach_the_known_likelihood() -> None:
    """(1, u, v) gives the third known figure."""
    found = fit(*read_searches(ARRAYS).rounds(feature_map("concat")))
    assert found.log_likelihood == pytest.approx(-12791.40212, abs=5e-6)


def test_cleaned_tables_hold_what_the_arrays_hold() -> None:
    """The 100-hotel zip and the arrays are the same searches; the 30-hotel zip has the counts it is known for."""
    arrays, table = read_searches(ARRAYS), read_searches(TABLES[100])
    for name in ("visitor", "catalogue", "shown", "choice", "ids"):
        np.testing.assert_array_equal(getattr(arrays, name), getattr(table, name))
    assert (len(table), table.items, int(table.shown.sum()), int((table.choice >= 0).sum())) == (
        4925,
        100,
        140156,
        3104,
    )
    small = read_searches(TABLES[30])
    assert (len(small), small.items, int(small.shown.sum()), int((small.choice >= 0).sum())) == (4922, 30, 121191, 3050)


def test_raw_sample_with_its_cut_last_row_is_read() -> None:
    """The last row, cut mid-line, is named by its line and dropped; the five searches of the top destination remain."""
    raw = read(RAW)
    assert raw.destination == 8192
    assert any("of 209" in note for note in raw.notes)
    assert any("line 5060" in note for note in raw.notes)
    assert sorted(raw.rows["srch_id"].unique().tolist()) == [63, 90, 133, 148, 203]
    searches = encode(clean(raw))
    assert len(searches) == 5
    assert len(searches.item_names) == 10
