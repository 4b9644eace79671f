"""Input validation: every error states the rule, then the value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]
"""Always float64 in practice; the type stubs of NumPy's linear algebra promise less."""
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]


def anywhere(flags: NDArray[Any]) -> bool:
    """``flags.any()``, faster for a single flag: most offers are to one visitor.

    >>> anywhere(np.array([False])), anywhere(np.array([0.0, 2.0]))
    (False, True)
    """
    return bool(flags.item() if flags.size == 1 else flags.any())


def everywhere(flags: NDArray[Any]) -> bool:
    """``flags.all()``, faster for a single flag."""
    return bool(flags.item() if flags.size == 1 else flags.all())


def require(rule: bool | np.bool_, message: str, **values: Any) -> None:
    """Raise ``ValueError("<message>, got <name>=<value>, ...")`` unless the rule holds.

    >>> require(0 >= 1, "capacity must be between 1 and items=100", capacity=0)
    Traceback (most recent call last):
    ...
    ValueError: capacity must be between 1 and items=100, got capacity=0
    """
    if not rule:
        got = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise ValueError(f"{message}, got {got}" if got else message)


def one_of(name: str, value: str, words: Iterable[str]) -> None:
    """Refuse a value that is not one of the words.

    >>> one_of("calibration", "tight", ("sound", "paper"))
    Traceback (most recent call last):
    ...
    ValueError: calibration must be one of sound, paper, got calibration='tight'
    """
    known = tuple(words)
    require(value in known, f"{name} must be one of {', '.join(known)}", **{name: value})


def finite(name: str, value: ArrayLike, *, shape: tuple[int | None, ...] | None = None) -> FloatArray:
    """Convert to a float64 array without NaN or infinity, whose last axes match ``shape`` (None: any length).

    >>> finite("theta", [1.0, float("nan")])
    Traceback (most recent call last):
    ...
    ValueError: theta must be finite, got theta[1]=nan
    """
    array = as_float(name, value)
    if shape is not None and array.shape != shape:
        check_shape(name, array, shape)
    if not np.isfinite(array).all():  # no product: threads of BLAS, which wait for one another, would make it
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        index = "" if not where else f"[{', '.join(map(str, where))}]"
        raise ValueError(f"{name} must be finite, got {name}{index}={array[where]}")
    return array


def as_float(name: str, value: ArrayLike) -> FloatArray:
    """Convert to a float64 array; raise a ``ValueError`` that names the argument if that fails."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be an array of numbers, got {name}={value!r}") from error


def as_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """Convert to an array of its own type; raise a ``ValueError`` that names the argument if that fails.

    >>> as_array("groups", [[0], [1, 2]])
    Traceback (most recent call last):
    ...
    ValueError: groups must be an array, all its rows equally long, got groups=[[0], [1, 2]]
    """
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, all its rows equally long, got {name}={value!r}") from error


def check_shape(name: str, array: NDArray[Any], shape: tuple[int | None, ...]) -> None:
    """Refuse an array whose last axes differ from ``shape``; leading axes are batch axes."""
    last = array.shape[array.ndim - len(shape) :] if array.ndim >= len(shape) else None
    if last is not None and all(want in (None, have) for want, have in zip(shape, last, strict=True)):
        return
    wanted = ", ".join(["...", *("any" if n is None else str(n) for n in shape)])
    require(False, f"{name} must have shape ({wanted})", shape=array.shape)


def positive(name: str, value: float | np.floating[Any] | np.integer[Any], *, zero: bool = False) -> float:
    """Check that a number is finite and positive (or, with ``zero``, at least zero); return it as a float.

    >>> positive("rho", -1)
    Traceback (most recent call last):
    ...
    ValueError: rho must be positive and finite, got rho=-1
    """
    rule = f"{name} must be {'at least zero' if zero else 'positive'} and finite"
    ok = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    require(ok and np.isfinite(value) and (value > 0 or (zero and value == 0)), rule, **{name: value})
    return float(value)


def integer(
    name: str, value: int | np.integer[Any], *, low: int = 1, high: int | None = None, high_name: str = ""
) -> int:
    """Check that a value is an integer between ``low`` and ``high``, both included.

    >>> integer("capacity", 0, high=100, high_name="items")
    Traceback (most recent call last):
    ...
    ValueError: capacity must be between 1 and items=100, got capacity=0
    """
    ok = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if high is None:
        require(ok and value >= low, f"{name} must be a whole number from {low} on", **{name: value})
    else:
        top = f"{high_name}={high}" if high_name else str(high)
        require(ok and low <= value <= high, f"{name} must be between {low} and {top}", **{name: value})
    return int(value)
