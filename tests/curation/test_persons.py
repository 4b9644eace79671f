"""Who may still contribute: persons by keyed hashes, counted by their own history alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quietshelf.curation.persons import Persons, admit

VISITS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=30)


def test_hashes_of_persons_need_a_key_that_is_new_for_every_shelf() -> None:
    """The same name is another hash elsewhere; with the key it is the same."""
    one, other = Persons(), Persons()
    again = Persons(one.key)
    for each in (one, other, again):
        assert each.admit("anna", batch=0, visits=1)
    assert one.counted.keys().isdisjoint(other.counted)
    assert one.counted == again.counted


def test_neither_key_nor_names_are_printed() -> None:
    """Printing the counts reveals no secret."""
    persons = Persons()
    persons.admit("anna", batch=0, visits=1)
    assert repr(persons) == "Persons()"


def admitted(history: list[tuple[str, int]], visits: int) -> list[tuple[str, int, bool]]:
    """Who came in which batch, batches in order, and whether the visit counted."""
    counted: dict[str, tuple[int, int]] = {}
    ordered = sorted(history, key=lambda visit: visit[1])
    return [(name, batch, admit(counted, name, batch=batch, visits=visits)) for name, batch in ordered]


@given(VISITS, st.integers(1, 3))
def test_a_person_counts_at_most_as_often_as_allowed_and_once_per_batch(
    history: list[tuple[str, int]], visits: int
) -> None:
    """The first visit of each batch counts until the cap is reached, and no other."""
    found = admitted(history, visits)
    for person in "abcd":
        batches = [batch for name, batch, counts in found if counts and name == person]
        came = sorted({batch for name, batch, _ in found if name == person})
        assert batches == came[:visits]


@given(VISITS, st.integers(1, 3))
def test_who_counts_depends_on_nobody_else(history: list[tuple[str, int]], visits: int) -> None:
    """Without all others a person's visits count exactly as among them."""
    found = admitted(history, visits)
    for person in "abcd":
        alone = admitted([visit for visit in history if visit[0] == person], visits)
        assert alone == [each for each in found if each[0] == person]


def test_a_visit_that_does_not_count_changes_nothing() -> None:
    """Being refused is not counted either."""
    counted = {"anna": (1, 4)}
    assert not admit(counted, "anna", batch=4, visits=2)
    assert not admit(counted, "anna", batch=5, visits=1)
    assert counted == {"anna": (1, 4)}
