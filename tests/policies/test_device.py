"""On another device offers and simulations are what they are here, to the last item."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from quietshelf.curation.coins import Coins
from quietshelf.model.choice import device as devices
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.device import Device, find_device, worlds_on
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import Context, FloatArray, Release
from quietshelf.policies import POLICIES, Optimistic, many_worlds, shortlist
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import contestant, simulate
from quietshelf.serving.shelf import Shelf


class Away(np.ndarray[Any, Any]):
    """An array of a device that is not there: it comes back by ``get``, as those of CuPy do."""

    def get(self) -> Any:
        return np.asarray(self)


def away() -> ModuleType:
    """A namespace with what is used of CuPy's, and rounding of its own: products are summed in another order."""
    made = ModuleType("away")
    for name in ("amax", "concatenate", "sort", "sqrt"):
        setattr(made, name, getattr(np, name))
    made.where = lambda mask: tuple(place.view(Away) for place in np.where(mask))  # type: ignore[attr-defined]
    made.asarray = lambda array: np.array(array).view(Away)  # type: ignore[attr-defined]
    made.matmul = lambda a, b: (a[..., ::-1] @ b[..., ::-1, :]).view(Away)  # type: ignore[attr-defined]
    made.is_available = lambda: True  # type: ignore[attr-defined]
    return made


@pytest.fixture(params=["cuda", "torch:cpu"], autouse=True)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stand-in for CuPy, and PyTorch where it is installed."""
    if request.param == "torch:cpu":
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr(devices, "_imported", lambda module: away() if module == "cupy" else None)
    monkeypatch.setattr(shortlist, "MANY", 10)
    monkeypatch.setattr(many_worlds, "WORTH_SENDING", 1)
    return str(request.param)


def some_release(rng: np.random.Generator, batch: tuple[int, ...], dim: int) -> Release:
    root = rng.normal(size=(*batch, dim, dim))
    theta = rng.normal(size=(*batch, dim)) * rng.integers(0, 2, size=(*batch, 1))
    radius = np.asarray(rng.choice([0.0, 0.5, 2.0], size=batch))
    explore = np.asarray(rng.random(batch) < 0.1)
    precision = root @ np.swapaxes(root, -1, -2) + np.eye(dim)
    return Release(theta, precision, radius, explore, np.zeros(batch, dtype=np.int64), np.ones(batch))


def test_offers_from_a_catalogue_are_the_same_on_a_device(name: str) -> None:
    """Before and after changes of items and of the release, with unavailable and tied items."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 4))[rng.integers(0, 500, size=900)]
    here, there = Catalogue.of(rows), Catalogue.of(rows).on(name)
    coins = Coins(b"secret").of([(0, who) for who in range(5)])
    for step in range(6):
        release = some_release(rng, (), 5 * 3)
        for _ in range(2):
            visitors = rng.normal(size=(5, 2))
            available = rng.random((5, 900 + step)) < rng.choice([0.01, 0.9])
            shown = [
                POLICIES["quiet"].offer(
                    Context(Catalogued(visitors, stored, feature_map("full")), np.ones(available.shape), 6, available),
                    release,
                    coins,
                )
                for stored in (here, there)
            ]
            np.testing.assert_array_equal(shown[0], shown[1])
            item, row = int(rng.integers(900)), rng.normal(size=4)
            here, there = here.with_row(item, row), there.with_row(item, row)
        more = rng.normal(size=(1, 4))
        here, there = here.with_more(more), there.with_more(more)


def test_worlds_are_decided_the_same_on_a_device(name: str) -> None:
    """Ties, extreme worlds, explorers and unequal revenues among them."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(40, 12, 3)) * rng.choice([1.0, 1.0, 0.0, 1e-30, 1e25, 1e200], size=(40, 1, 1))
        x[::5, 1] = x[::5, 0]
        revenue = np.where(rng.random((40, 1)) < 0.2, rng.uniform(0.1, 1, size=(40, 12)), 1.0)
        context, release = Context(Dense(x), revenue, 4), some_release(rng, (40,), 3)
        shown: list[Any] = []
        for place in ("cpu", name):
            with worlds_on(place):
                shown.append(Optimistic().offer(context, release, np.random.default_rng(seed)))
        np.testing.assert_array_equal(*shown)


def test_a_device_decides_most_worlds_and_none_that_are_tied(name: str) -> None:
    """Else it would be of no use, or not exact."""
    rng = np.random.default_rng(0)
    x: FloatArray = rng.normal(size=(300, 20, 3))
    x[0] = x[0, 0]
    release = Release(np.ones((300, 3)), np.broadcast_to(np.eye(3), (300, 3, 3)).copy(), *some_numbers(300))
    with worlds_on(name):
        _, sure = many_worlds.beyond_doubt(
            Context(Dense(x), np.ones((300, 20)), 4), release, release.theta, np.ones(300)
        )
    assert not sure[0]
    assert sure.mean() > 0.95


def some_numbers(many: int) -> tuple[Any, Any, Any]:
    return np.ones(many), np.zeros(many, dtype=bool), np.zeros(many, dtype=np.int64)


def test_simulations_give_the_same_rows_on_a_device(name: str) -> None:
    """Of `quiet` and of a policy whose release changes with every visitor."""
    world, who = Synthetic(items=15, capacity=3, dim=3), [contestant("quiet", rho=1.0), contestant("ucb-mnl")]
    found = [simulate(world, who, horizon=30, replicates=4, seed=1, device=place) for place in ("cpu", name)]
    for label, regret in found[0].regret.items():
        np.testing.assert_array_equal(regret, found[1].regret[label])


def test_a_shelf_on_a_device_makes_the_same_offers(name: str, tmp_path: Any) -> None:
    """Saved and loaded as well; with a catalogue that is changed on the way."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    shelf = Shelf(catalogue=rows, visitor_dim=2, capacity=4, rho=1.0, device=name)
    shelf.offer([0.1, 0.2])
    shelf.change(3, features=[9.0, 9.0, 9.0])
    shelf.save(tmp_path / "shelf")
    loaded = Shelf.load(tmp_path / "shelf", device=name)
    assert len(loaded.offer([0.3, 0.4]).items) == 4


@pytest.mark.parametrize("wrong", ["tpu", "cuda0", "cuda:", "torch", ""])
def test_unknown_devices_are_refused(wrong: str) -> None:
    """By what they must be called."""
    with pytest.raises(ValueError, match="device must be cpu, cuda, cuda:N or torch:cpu, got device="):
        find_device(wrong)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is asked for."""
    monkeypatch.setattr(devices, "_imported", lambda _: None)
    for call in (
        lambda: find_device("cuda"),
        lambda: Shelf(items=3, dim=2, capacity=1, rho=1.0, device="cuda"),
        lambda: simulate(
            Synthetic(items=5, capacity=2, dim=2), ["greedy"], horizon=2, replicates=1, seed=0, device="cuda"
        ),
    ):
        with pytest.raises(ValueError, match="device must exist, and PyTorch or CuPy be installed"):
            call()


def test_products_in_less_than_single_precision_are_refused() -> None:
    """The bounds would not hold for them."""
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        with pytest.raises(ValueError, match=r"torch\.set_float32_matmul_precision must be 'highest'"):
            Device("cpu", torch).check()
    finally:
        torch.set_float32_matmul_precision(before)


def test_bounds_never_use_the_widths_of_another_release() -> None:
    """Another thread may ask for another release's between any two steps: what it keeps is not taken for one's own."""
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(2, 4)).astype(np.float32), rng.normal(size=(3, 50)).astype(np.float32)
    multiple, roots = np.ones(2, dtype=np.float32), rng.normal(size=(2, 4, 4))
    namespace = away()
    resident = devices.Resident(Device("cuda", namespace), [columns])

    def asked(release: int) -> Any:
        return resident.bounds(rows, rows[:, :1], multiple, names[release], roots[release])

    names, plain = [object(), object()], namespace.asarray
    wanted = asked(0)

    def meanwhile(array: Any) -> Any:
        if np.shape(array) == (2, 1) and array[0, 0] == multiple[0]:
            namespace.asarray = plain  # type: ignore[attr-defined]
            asked(1)
        return plain(array)

    namespace.asarray = meanwhile  # type: ignore[attr-defined]
    np.testing.assert_array_equal(asked(0), wanted)
