"""Find the items with the largest bounds, on the CPU or on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.model.choice.device import Device
from quietshelf.model.types import BoolArray, FloatArray, IntArray


@dataclass(eq=False)
class Screen:
    """Bounds of all items for B visitors.

    Attributes:
        upper: The bounds, (B, N).
        device: Where they are stored; None for the CPU.
    """

    upper: Any
    device: Device | None

    def bar(self, masks: dict[int, BoolArray]) -> None:
        """Exclude the items of a mask, (N,), for some visitors, given by their places."""
        for place, mask in masks.items():
            self.upper[place, mask if self.device is None else self.device.put(mask)] = -np.inf

    def above(self, floors: FloatArray) -> list[IntArray]:
        """For each visitor the items that are not barred and whose bounds reach that visitor's floor, (B,)."""
        least = np.maximum(floors, np.finfo(np.float32).min).astype(np.float32)
        if self.device is None:
            return [np.flatnonzero(row >= floor) for row, floor in zip(self.upper, least, strict=True)]
        many, items = self.upper.shape
        flat = (self.upper >= self.device.put(least[:, None])).reshape(-1)
        found = self.device.get(self.device.namespace.where(flat)[0])
        who, item = np.divmod(found, items)
        return np.split(item, np.searchsorted(who, np.arange(1, many)))

    def best(self, count: int) -> list[IntArray]:
        """For each visitor some items with the largest bounds: at least ``count``, unless fewer are left."""
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
