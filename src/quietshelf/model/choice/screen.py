"""The items whose bounds are largest, found where the bounds are: here, or on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.model.choice.device import Device
from quietshelf.model.types import BoolArray, FloatArray, IntArray


@dataclass(eq=False)
class Screen:
    """Bounds of all items for B visitors, here or on a device.

    Attributes:
        upper: (B, N).
        device: Where it is; None for here.
    """

    upper: Any
    device: Device | None

    def bar(self, masks: dict[int, BoolArray]) -> None:
        """Leave out, for visitors by their places, the items of a mask, (N,)."""
        for place, mask in masks.items():
            self.upper[place, mask if self.device is None else self.device.put(mask)] = -np.inf

    def above(self, floors: FloatArray) -> list[IntArray]:
        """The items of each visitor whose bounds are no smaller than that visitor's floor, (B,), and not barred."""
        least = np.maximum(floors, np.finfo(np.float32).min).astype(np.float32)
        if self.device is None:
            return [np.flatnonzero(row >= floor) for row, floor in zip(self.upper, least, strict=True)]
        many, items = self.upper.shape
        flat = (self.upper >= self.device.put(least[:, None])).reshape(-1)
        found = self.device.get(self.device.namespace.where(flat)[0])
        who, item = np.divmod(found, items)
        return np.split(item, np.searchsorted(who, np.arange(1, many)))

    def best(self, count: int) -> list[IntArray]:
        """Some of the largest of each visitor, ``count`` at least where so many are not barred."""
        items, strides = self.upper.shape[1], 8 * count
        if items < 8 * strides:
            floors = np.full(len(self.upper), -np.inf)
        else:
            xp: Any = np if self.device is None else self.device.namespace
            whole = self.upper[:, : items - items % strides].reshape(len(self.upper), -1, strides)
            most = xp.amax(whole, axis=1)
            most = most if self.device is None else self.device.get(most)
            floors = np.partition(most, strides - count, axis=-1)[:, strides - count]
        return self.above(floors)
