"""Bounds and first guesses on another device, through PyTorch or CuPy; neither is a dependency.

Only functions that both libraries share with NumPy are used. A device never decides: NumPy does, so offers are the same
on every device, to the last bit (`choice.screening`, `policies.many_worlds`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.types import require

SPAN = 1 << 18
"""Items whose widths are computed together on a device."""
IN_FULL = "highest"


@dataclass(frozen=True)
class Device:
    """Where arrays may live: an array namespace, and its name for the device."""

    name: str
    namespace: ModuleType

    @property
    def is_torch(self) -> bool:
        """Whether this is PyTorch; otherwise it is CuPy."""
        return self.namespace.__name__ == "torch"

    def put(self, array: NDArray[Any]) -> Any:
        """Copy an array to the device."""
        if self.is_torch:
            return self.namespace.from_numpy(np.array(array)).to(self.name)
        return self.namespace.asarray(array)

    def get(self, array: Any) -> NDArray[Any]:
        """Copy an array back to NumPy."""
        return np.asarray(array.cpu() if self.is_torch else array.get())

    def sort(self, array: Any) -> Any:
        """A sorted copy, along the last axis."""
        found = self.namespace.sort(array, -1)
        return found[0] if self.is_torch else found

    def check(self) -> None:
        """Refuse matrix products in less than single precision: the bounds would not hold."""
        if self.is_torch:
            now = self.namespace.get_float32_matmul_precision()
            require(now == IN_FULL, f"torch.set_float32_matmul_precision must be {IN_FULL!r}", precision=now)


@contextmanager
def worlds_on(name: str) -> Iterator[None]:
    """Score visitors of many worlds on that device, in this thread."""
    token = _WORLDS.set(find_device(name))
    try:
        yield
    finally:
        _WORLDS.reset(token)


def device_of_worlds() -> Device | None:
    """The device that scores many worlds now; None for NumPy only."""
    return _WORLDS.get()


def find_device(name: str) -> Device | None:
    """Find a device by name; None for ``cpu``, where NumPy does everything.

    ``cuda`` and ``cuda:1`` need PyTorch or CuPy, and a GPU; ``torch:cpu`` is PyTorch without one.

    >>> find_device("tpu")
    Traceback (most recent call last):
    ...
    ValueError: device must be cpu, cuda, cuda:N or torch:cpu, got device='tpu'
    """
    if name == "cpu":
        return None
    cuda = re.fullmatch(r"cuda(?::(\d+))?", name)
    require(name == "torch:cpu" or cuda is not None, "device must be cpu, cuda, cuda:N or torch:cpu", device=name)
    number, torch = int((cuda and cuda[1]) or 0), _imported("torch")
    if torch is not None and (cuda is None or number < torch.cuda.device_count()):
        return Device("cpu" if cuda is None else name, torch)
    cupy = None if cuda is None or number else _imported("cupy")
    if cupy is not None and cupy.is_available():
        return Device(name, cupy)
    rule = "device must exist, and PyTorch or CuPy be installed with support for it"
    raise ValueError(f"{rule}, got device={name!r}")


_WORLDS: ContextVar[Device | None] = ContextVar("worlds", default=None)


def _imported(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Resident:
    """Item features in single precision on a device, (d2, N), and the widths of the last release."""

    def __init__(self, device: Device, columns: list[NDArray[np.float32]]) -> None:
        device.check()
        self._device = device
        self._columns = device.put(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1))
        self._widths: tuple[object, Any] = (None, None)

    def change(self, items: NDArray[np.int64], columns: NDArray[np.float32]) -> None:
        """Replace the features of items (n,) by columns (d2, n)."""
        self._columns[:, self._device.put(items)] = self._device.put(columns)
        self._widths = (None, None)

    def bounds(
        self,
        rows: NDArray[np.float32],
        offset: NDArray[np.float32],
        multiple: NDArray[np.float32],
        common: object,
        root: NDArray[np.floating[Any]],
    ) -> Any:
        """The coarse bounds of all items, (B, N), on the device."""
        self._device.check()
        put = self._device.put
        upper = self._device.namespace.matmul(put(rows[:, 1:]), self._columns)
        upper += put(offset)
        if multiple.any():
            held = self._widths  # read once: another thread may replace it by those of another release
            if held[0] is not common:
                held = self._widths = (common, self._lengths(put(root.astype(np.float32))))
            upper += put(multiple[:, None]) * held[1]
        return upper

    def _lengths(self, root: Any) -> Any:
        xp, parts = self._device.namespace, []
        for start in range(0, self._columns.shape[1], SPAN):
            image = xp.matmul(root[:, 1:], self._columns[:, start : start + SPAN])
            image += root[:, :1]
            image *= image
            parts.append(xp.sqrt(image.sum(axis=0)))
        return xp.concatenate(parts)
