"""Request and reply bodies, with examples. Rules that depend on the shelf are checked elsewhere."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat
from pydantic_core import PydanticCustomError

from quietshelf.privacy.release.quiet_settings import MOST_COMPARISON

LONGEST_NAME = 100
NAME = f"[A-Za-z0-9][A-Za-z0-9_-]{{0,{LONGEST_NAME - 1}}}"
"""Pattern of a shelf's name."""
LONGEST_OFFER_ID, LONGEST_RETRY = 200, 200
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=f"^{NAME}$")]
ItemId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Group = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
Person = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Plain = dict[str, Any]
"""A JSON object; docs/service.md lists its fields."""
SMALLEST_RHO, LARGEST_RHO = 1e-6, 1e6
LARGEST_DIM = 512
"""A release of d coordinates holds 3 d² numbers, 6 MB at this d (docs/capacity.md)."""

Entry = TypeVar("Entry")
Listed = Annotated[list[Entry], Field(fail_fast=True)]
"""A list that is refused at its first wrong entry: an error for each would cost a thousand times the request."""


def _cells(cells: dict[str, Any]) -> dict[str, Any]:
    """Check the cells of a row; the schema says what they mean."""
    for name, value in cells.items():
        _check_cell(name if is_text(name) else "a name", value)
    return cells


def _check_cell(name: str, value: Any) -> None:
    listed = isinstance(value, list) and all(isinstance(part, (int, float)) for part in value)
    if not (value is None or listed or isinstance(value, (int, float, str))):
        raise PydanticCustomError(
            "cell", "{name}: must be text, a number, true, false, null or a list of numbers", {"name": name[:100]}
        )
    if isinstance(value, str) and not is_text(value):
        raise PydanticCustomError("cell", "{name}: must be text that UTF-8 can hold", {"name": name[:100]})


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold the text: JSON can spell lone surrogates."""
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in value)


Attributes = Annotated[dict[str, Any], Field(max_length=10_000), AfterValidator(_cells)]


def _examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [*examples]})


class Strict(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class Prior(Strict):
    """What is publicly known about tastes before the first visitor."""

    theta: Listed[FiniteFloat] = Field(max_length=10_000)
    precision: Listed[Listed[FiniteFloat]] = Field(max_length=10_000)


class ShelfBody(Strict):
    """Settings of a shelf. The first offer fixes all but capacity, fill, limits, learned_share and guard."""

    model_config = _examples(
        {"rho": 1.0, "capacity": 2, "feature_map": "concat", "visitor_dim": 1, "window": 3600},
        {
            "epsilon": 2.0,
            "delta": 1e-6,
            "capacity": 2,
            "window": 3600,
            "schema": {
                "version": 1,
                "id": "sku",
                "items": {
                    "price": {"kind": "number", "scale": 2.0, "centre": 5.0},
                    "kind": {"kind": "category", "levels": ["tea", "coffee"]},
                },
                "visitors": {"age": {"kind": "number", "scale": 15.0, "centre": 40.0}},
            },
        },
    )

    rho: FiniteFloat | None = Field(
        None,
        ge=SMALLEST_RHO,
        le=LARGEST_RHO,
        description="The promise to one person for the shelf's lifetime, in zCDP; or give epsilon and delta.",
    )
    epsilon: FiniteFloat | None = Field(
        None, gt=0, le=1e6, exclude=True, description="With delta, instead of rho; converted once, and kept as rho."
    )
    delta: FiniteFloat | None = Field(
        None, ge=1e-300, lt=1, exclude=True, description="The delta that epsilon is stated for."
    )
    capacity: Count = Field(description="The most items shown.")
    fill: bool = Field(
        False, description="Show as many items as allowed; by default fewer, if more would lower expected revenue."
    )
    window: FiniteFloat = Field(gt=0, le=1e9, description="Feedback window: how many seconds to wait for an answer.")
    columns: dict[str, Any] | None = Field(
        None,
        alias="schema",
        description="What the columns of your product table and visitors' attributes mean, as `quietshelf schema` "
        "writes it; items and visitors may then have attributes.",
    )
    feature_map: Literal["item", "concat", "outer", "full"] = Field(
        "full", description="How visitor and item features make x; defaults to item if a schema has no visitors."
    )
    intercept: bool = True
    item_effects: int = Field(
        0,
        ge=0,
        le=LARGEST_DIM,
        description="How many items, in the order they are added, get a separate utility on top of what features say; "
        "count later items too. Items then need no features.",
    )
    visitor_scale: FiniteFloat | Listed[FiniteFloat] | None = Field(
        1.0, description="Standard deviation of visitor features, declared, not measured; null declares nothing."
    )
    visitor_dim: int | None = Field(
        None,
        ge=0,
        le=LARGEST_DIM,
        description="Number of visitor features; optional if visitor_scale is a list, the map uses none, or there is a "
        "schema.",
    )
    conversion: FiniteFloat | None = Field(
        None,
        gt=0,
        lt=1,
        description="Declared share of visitors who choose something, 0.03 if three in a hundred do; null assumes "
        "0.2. A wrong value costs time, never privacy.",
        examples=[0.03],
    )
    max_batch: Count | None = Field(None, description="The most visitors in a batch, where tastes drift.")
    forgetting: FiniteFloat = Field(
        1.0, gt=0, le=1, description="Factor by which each release reduces the weight of older ones; 1 forgets nothing."
    )
    learned_share: FiniteFloat = Field(
        1.0, ge=0, le=1, description="Share of visitors that the policy serves; others see your present ranking."
    )
    present: Literal["ranking", "random"] = Field(
        "ranking", description="What those others see: your ranking, from items or from each offer, or random items."
    )
    comparison: FiniteFloat = Field(
        0.0, ge=0, le=MOST_COMPARISON, description="Share of rho that pays for comparing the two; 0 compares nothing."
    )
    most_revenue: FiniteFloat | None = Field(
        None,
        gt=0,
        le=1e150,
        description="The most that one choice earns, required for a comparison: revenue is cut there, nowhere else.",
    )
    guard: bool = Field(True, description="Fall back to the present ranking once it earns more, with 99 % confidence.")
    policy: str = Field("quiet", max_length=100, description="quiet, or uniform for comparison.")
    private: bool = Field(True, description="Must be set to false for a policy or a prior that is not private.")
    visits: int = Field(1, ge=1, le=1000, description="How many visits of one person count.")
    on_no_answer: Literal["no-choice", "zero"] = "no-choice"
    contributions: Literal["server", "device"] = Field(
        "server",
        description="Where a visitor's contribution is computed: here, or on the visitor's device, which then keeps "
        "features and choice to itself.",
    )
    limits: dict[Group, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(
        default_factory=dict, description="The most items shown of each group."
    )
    prior: Prior | Plain | None = Field(
        None,
        description="What to start from: public theta and precision, or the content of a file of `quietshelf fit "
        "--prior`, whose cost is added to rho; an epsilon holds for the sum.",
    )
    curvature: Listed[Listed[FiniteFloat]] | None = Field(None, description="Public guess of the second moment of x.")

    def kept(self) -> str:
        """The settings as the database stores them."""
        return self.model_dump_json(by_alias=True)


class ItemBody(Strict):
    """An item; fields that you leave out of a known item stay as they are."""

    id: ItemId
    features: Listed[FiniteFloat] | None = Field(None, max_length=10_000)
    attributes: Attributes | None = Field(
        None, description="Columns of your product table by name, instead of features; needs a shelf with a schema."
    )
    revenue: FiniteFloat | None = Field(None, ge=-1e150, le=1e150)
    available: bool | None = None
    group: Group | None = None
    rank: FiniteFloat | None = Field(
        None, ge=-1e15, le=1e15, description="Place in your present ranking, lowest first; null takes it out."
    )


class ItemsBody(Strict):
    """Items to add or change, all or none."""

    model_config = _examples(
        {"items": [{"id": "tea", "features": [0.5], "revenue": 3}, {"id": "jam", "features": [1.0]}]},
        {"items": [{"id": "a-1", "attributes": {"price": 4.5, "kind": "tea"}}]},
    )

    items: Listed[ItemBody] = Field(min_length=1, max_length=100_000)


class RetireBody(Strict):
    """Items that will never be shown again."""

    model_config = _examples({"items": ["jam"]})

    items: Listed[ItemId] = Field(min_length=1, max_length=10_000)


class OfferBody(Strict):
    """One visitor."""

    model_config = _examples(
        {"features": [0.2], "person": "customer 17"},
        {"attributes": {"age": 44}, "person": "customer 17"},
    )

    features: Listed[FiniteFloat] = Field([], max_length=10_000, description="The visitor's features.")
    attributes: Attributes | None = Field(
        None, description="The visitor's attributes by name, instead of features; needs a shelf with a schema."
    )
    person: Person | None = Field(None, description="Person id, authenticated by you; stored only as a keyed hash.")
    candidates: Listed[ItemId] | None = Field(
        None, description="Items that may be shown; by default all available ones."
    )
    required: Listed[ItemId] = Field([], description="Items that must be shown.")
    exclude: Listed[ItemId] = Field([], description="Items that must not be shown.")
    capacity: Count | None = Field(None, description="The most items shown; at most the shelf's capacity.")
    ranking: Listed[ItemId] | None = Field(
        None,
        min_length=1,
        description="What you would show this visitor today, best first, instead of the rank of items. It may depend "
        "only on this visitor and on public data.",
    )


class ChoiceBody(Strict):
    """The answer to an offer."""

    model_config = _examples({"item": "tea"})

    item: ItemId | None = Field(description="The item chosen, or null for none.")


class ErasureBody(Strict):
    """The person whose pending contributions to erase."""

    model_config = _examples({"person": "customer 17"})

    person: Person


class OfferReply(BaseModel):
    """What to show, in order."""

    model_config = _examples(
        {
            "offer": "1.0.0.TmV2ZXIgYSByZWFsIG9mZmVy",
            "items": ["tea", "jam"],
            "release": 0,
            "expires": "2026-01-01T12:00:00Z",
        }
    )

    offer: str
    items: list[str]
    release: int = Field(description="The release that the offer uses; 0 before the first.")
    expires: str = Field(description="When answers stop counting.")


class ProblemReply(BaseModel):
    """Problem details (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
