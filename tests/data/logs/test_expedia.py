"""A simulated raw file: read, clean and encode, each tested separately."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quietshelf.data.logs.expedia import clean, encode, read, write_sample
from quietshelf.data.logs.expedia.columns import COLUMNS, HOTEL, OPTIONAL, VISITOR
from quietshelf.data.logs.expedia.encoding import beside_the_paper
from quietshelf.data.logs.searches import load


def changed(sample: Path, folder: Path, old: str, new: str) -> Path:
    """The sample with the first ``old`` after the header replaced."""
    header, _, rest = sample.read_text().partition("\n")
    (folder / "changed.csv").write_text(header + "\n" + rest.replace(old, new, 1))
    return folder / "changed.csv"


def test_columns_are_the_54_of_the_raw_file_and_levels_make_10_and_18() -> None:
    """Drop-first dummies of the paper's Table 1 give exactly its numbers of features."""
    assert len(COLUMNS) == 54
    assert set(OPTIONAL) < set(COLUMNS)
    assert sum(max(1, len(feature.cuts)) for feature in HOTEL) == 10
    assert sum(max(1, len(feature.cuts)) for feature in VISITOR) == 18


def test_prepared_searches_have_the_papers_features(sample: Path) -> None:
    """10 hotel and 18 visitor features of mean zero and variance one; 360 searches of the top destination."""
    searches = encode(clean(read(sample)))
    assert beside_the_paper(searches) == [
        ("searches", 360, 4465),
        ("hotels", 40, 124),
        ("hotel features", 10, 10),
        ("visitor features", 18, 18),
    ]
    for features in (searches.visitor, searches.item_features()):
        np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(features.std(axis=0), 1)


def test_equal_seeds_write_equal_files(sample: Path, tmp_path: Path) -> None:
    """The generator depends on its seed alone."""
    assert write_sample(tmp_path / "again.csv", searches=400, seed=3).read_bytes() == sample.read_bytes()
    assert write_sample(tmp_path / "other.csv", searches=400, seed=4).read_bytes() != sample.read_bytes()


def test_chunks_do_not_change_what_is_read(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches cut by the border of a chunk, 97 rows each, come out whole."""
    whole = encode(clean(read(sample)))
    monkeypatch.setattr("quietshelf.data.logs.expedia.reading.CHUNK_ROWS", 97)
    pieces = encode(clean(read(sample)))
    for name in ("visitor", "catalogue", "shown", "choice", "ids"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))


def test_progress_ends_at_the_bytes_of_both_passes(sample: Path) -> None:
    """The bar counts bytes, never backwards, up to twice the size of the file."""
    seen: list[tuple[int, int]] = []
    read(sample, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (2 * sample.stat().st_size,) * 2


def test_a_cut_last_row_is_dropped_with_its_search_and_named(sample: Path, tmp_path: Path) -> None:
    """A file cut mid-line loses the last search; the note gives the line."""
    lines = sample.read_text().splitlines()
    lines = lines[: max(k for k, line in enumerate(lines) if line.startswith("399,")) + 1]
    cut = tmp_path / "cut.csv"
    cut.write_text("\n".join(lines)[:-40])
    whole, raw = read(sample), read(cut)
    assert 399 in set(whole.rows["srch_id"])
    assert 399 not in set(raw.rows["srch_id"])
    assert any(f"line {len(lines)}" in note for note in raw.notes)


def test_a_row_with_too_many_fields_is_a_bad_row(sample: Path, tmp_path: Path) -> None:
    """What stands where is then unknown; the line is named and its search dropped."""
    raw = read(changed(sample, tmp_path, "\n", ",7\n"))
    assert any("in line 2:" in note for note in raw.notes)
    assert 1 not in set(raw.rows["srch_id"])


def test_text_for_a_number_is_a_bad_row(sample: Path, tmp_path: Path) -> None:
    """A word in a numeric column costs the search it stands in, not the column."""
    wrong = changed(sample, tmp_path, ",219,", ",somewhere,")
    raw = read(wrong)
    assert any("in line 2:" in note for note in raw.notes)
    assert 1 not in set(raw.rows["srch_id"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: "", "must not be empty"),
        (lambda text: text.partition("\n")[0] + "\n", "at least one complete row"),
        (lambda _: "a,b\n1,2\n", "must have the 54 columns"),
        (lambda text: text.replace("price_usd", "price", 1), r"missing=\['price_usd'\]"),
        (lambda text: text.replace("\n1", ",9\n1", 400).replace(",9", "", 1), "at most 1% bad rows .* first_line=2"),
        (
            lambda text: "\n".join([text.splitlines()[0], *(line[:90] for line in text.splitlines()[1:])]),
            "complete row",
        ),
    ],
)
def test_wrong_files_are_refused_by_name(sample: Path, tmp_path: Path, make: object, message: str) -> None:
    """Empty, a header alone, other columns, too many fields, or rows cut throughout: each with its reason."""
    assert callable(make)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(make(sample.read_text()))
    with pytest.raises(ValueError, match=message):
        read(wrong)


def test_a_destination_without_bookings_or_rows_is_refused(sample: Path, tmp_path: Path) -> None:
    """There is nothing to learn from it."""
    with pytest.raises(ValueError, match="must hold rows of the destination, got destination=5"):
        read(sample, destination=5)
    lines = sample.read_text().splitlines()
    none = tmp_path / "none.csv"
    none.write_text("\n".join([lines[0], *(line[:-1] + "0" for line in lines[1:])]) + "\n")
    with pytest.raises(ValueError, match="must have bookings, got bookings=0"):
        read(none)


def test_clicks_are_an_outcome_too(sample: Path) -> None:
    """Every simulated search has a click; a booking, if there is one, still counts as the choice."""
    raw = read(sample)
    booked, clicked = clean(raw).choice, clean(raw, outcome="click").choice
    assert (clicked >= 0).all()
    np.testing.assert_array_equal(clicked[booked >= 0], booked[booked >= 0])
    assert (booked < 0).any()


def test_rare_hotels_can_be_dropped(sample: Path) -> None:
    """No hotel that remains was shown less often; the note says how many went."""
    cleaned = clean(read(sample), impressions=160)
    counts = cleaned.shown.sum(axis=0)
    assert counts.min() >= 160
    assert any("fewer than 160 times" in note for note in cleaned.notes)


def test_saved_searches_come_back_and_nothing_half_written_stays(sample: Path, tmp_path: Path) -> None:
    """A round trip through the file; a failure while writing leaves the folder as it was."""
    searches = encode(clean(read(sample)))
    back = load(searches.save(tmp_path / "hotels.npz"))
    np.testing.assert_array_equal(back.visitor, searches.visitor)
    assert back.notes == searches.notes
    assert [path.name for path in tmp_path.iterdir()] == ["hotels.npz"]
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        searches.save(tmp_path / "hotels.csv")
    np.savez(tmp_path / "strange.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="must be of the format"):
        load(tmp_path / "strange.npz")
