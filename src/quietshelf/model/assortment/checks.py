"""Argument checks of `best`: errors give the rule, the value, and in a batch the first problem that breaks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quietshelf.model.assortment.rules import Rules
from quietshelf.model.types import (
    BoolArray,
    FloatArray,
    IntArray,
    as_array,
    as_float,
    check_shape,
    finite,
    require,
)

BOOLEAN = (bool, np.bool_)
LARGEST_REVENUE = 1e150
LARGEST_UTILITY = 1e300  # differences of utilities must not overflow


def weight(value: ArrayLike | None) -> FloatArray:
    """Check weights (..., N): at least zero, possibly infinite."""
    array = as_float("weight", value)  # type: ignore[arg-type]  # `best` checks that one is given
    check_shape("weight", array, (None,))
    if not array.min(initial=0.0) >= 0:
        raise ValueError(f"weight must be at least zero, got weight{_first(~(array >= 0), array)}")
    return array


def utility(value: ArrayLike) -> FloatArray:
    """Check utilities (..., N): finite."""
    array = finite("utility", value, shape=(None,))
    _bounded("utility", array, LARGEST_UTILITY)
    return array


def revenue(value: ArrayLike | None, items: int) -> FloatArray:
    """Check revenues: finite, one number or (..., N)."""
    array = as_float("revenue", value)  # type: ignore[arg-type]  # `best` refuses None
    if array.ndim:
        check_shape("revenue", array, (items,))
    array = finite("revenue", array)
    _bounded("revenue", array, LARGEST_REVENUE)
    return array


def mask(name: str, value: Any, items: int) -> BoolArray | None:
    """Make a boolean mask (..., N) from a mask or from a list of distinct item indices."""
    if value is None:
        return None
    array = as_array(name, value)
    if array.dtype == np.bool_:
        check_shape(name, array, (items,))
        return array
    listed = integers(name, value)
    _within(name, f"{name} must name items from 0 to {items - 1}", listed, 0, items - 1)
    known, count = np.unique(listed, return_counts=True)
    if known.size < listed.size:
        raise ValueError(f"{name} must name each item at most once, got item {known[count.argmax()]} again")
    chosen = np.zeros(items, dtype=np.bool_)
    chosen[listed] = True
    return chosen


def groups(group: ArrayLike | None, limit: ArrayLike | None, items: int) -> tuple[IntArray | None, IntArray | None]:
    """Check group numbers (N,) and the limits (G,) they refer to."""
    if group is None and limit is None:
        return None, None
    if group is None or limit is None:
        alone = "limits" if group is None else "groups"
        raise ValueError(f"groups and limits must be given together, got {alone} alone")
    numbers, bounds = integers("groups", group), integers("limits", limit)
    require(numbers.shape == (items,), f"groups must have shape ({items},)", shape=numbers.shape)
    _within("groups", f"groups must be from -1 to {bounds.size - 1}, the last of limits", numbers, -1, bounds.size - 1)
    _within("limits", "limits must be at least zero", bounds, 0, None)
    return numbers, bounds


def integers(name: str, value: Any) -> IntArray:
    """Make a one-dimensional array of whole numbers; an empty list of any type will do."""
    array = as_array(name, value)
    fits = array.ndim == 1 and (array.dtype.kind in "iu" or array.size == 0)
    require(fits, f"{name} must be a list of whole numbers", **{name: value})
    return array.astype(np.int64)


def common_shape(**arrays: NDArray[Any] | None) -> tuple[int, ...]:
    """The shape to which all given arrays broadcast."""
    shapes = {name: array.shape for name, array in arrays.items() if array is not None}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        got = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        raise ValueError(f"batch axes must agree, got {got}") from error


def feasible(rules: Rules, limits: IntArray | None, shape: tuple[int, ...]) -> None:
    """Refuse constraints that no assortment can meet."""
    batch, room = shape[:-1], rules.capacity
    if rules.required is not None:
        count = np.count_nonzero(rules.required, axis=-1)
        _each(count > room, f"required must name at most capacity={room} items, got {{}} items", count, batch)
        if rules.barred is not None:
            clash = rules.required & rules.barred
            item = clash.argmax(axis=-1)
            _each(np.any(clash, axis=-1), "required items must be available, got item {}", item, batch)
        if rules.groups is not None and limits is not None:
            _groups_hold(_members(rules.required, rules.groups, limits.size), limits, batch)
    if rules.exactly:
        most = _most(rules, limits, shape)
        _each(most < room, f"exactly capacity={room} items must be possible, got at most {{}}", most, batch)


def _groups_hold(members: IntArray, limits: IntArray, batch: tuple[int, ...]) -> None:
    over = members > limits
    if over.any():
        problem = int(np.argmax(over.any(axis=-1)))
        group = int(np.argmax(over[problem]))
        got = f"{members[problem, group]} items of group {group}, whose limit is {limits[group]}"
        raise ValueError(f"required must keep within limits, got {got}{_where(problem, batch)}")


def _most(rules: Rules, limits: IntArray | None, shape: tuple[int, ...]) -> IntArray:
    """How many items can be shown at once in each problem, regardless of capacity."""
    free = np.ones((1, shape[-1]), dtype=np.bool_) if rules.barred is None else ~rules.barred
    if rules.groups is None or limits is None:
        return np.asarray(np.count_nonzero(free, axis=-1))
    members = _members(free, rules.groups, limits.size)
    loose: IntArray = np.count_nonzero(free & (rules.groups < 0), axis=-1)
    return np.asarray(loose + np.minimum(members, limits).sum(axis=-1))


def _members(chosen: BoolArray, group: IntArray, count: int) -> IntArray:
    """How many chosen items each group holds, (B, G)."""
    problem, item = np.nonzero(chosen & (group >= 0))
    return np.bincount(problem * count + group[item], minlength=len(chosen) * count).reshape(len(chosen), count)


def _each(wrong: BoolArray | np.bool_, message: str, value: IntArray, batch: tuple[int, ...]) -> None:
    if wrong.any():
        problem = int(np.argmax(wrong))
        raise ValueError(message.format(value[problem]) + _where(problem, batch))


def _where(problem: int, batch: tuple[int, ...]) -> str:
    return f" in problem {_index(problem, batch)}" if batch else ""


def _bounded(name: str, array: FloatArray, largest: float) -> None:
    if max(array.max(initial=0.0), -array.min(initial=0.0)) > largest:
        raise ValueError(f"{name} must lie within ±{largest:g}, got {name}{_first(np.abs(array) > largest, array)}")


def _within(name: str, rule: str, values: IntArray, low: int, high: int | None) -> None:
    wrong = (values < low) if high is None else (values < low) | (values > high)
    if wrong.any():
        raise ValueError(f"{rule}, got {name}{_first(wrong, values)}")


def _first(wrong: BoolArray, array: FloatArray | IntArray) -> str:
    place = int(np.argmax(wrong))
    index = f"[{_index(place, array.shape)}]" if array.ndim else ""
    return f"{index}={array.reshape(-1)[place]}"


def _index(place: int, shape: tuple[int, ...]) -> str:
    return ", ".join(str(int(i)) for i in np.unravel_index(place, shape))
