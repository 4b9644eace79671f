"""An engine that works in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quietshelf.research.experiments.units import Done, Unit, run_unit


class InProcess:
    """Runs units one by one in this process; stops after the given number."""

    def __init__(self, most: int | None = None) -> None:
        self.most, self.names = most, list[str]()

    def __call__(self, units: list[Unit], report: Callable[[int], None]) -> Iterator[tuple[Unit, Done]]:
        for unit in units:
            if len(self.names) == self.most:
                raise KeyboardInterrupt
            self.names.append(unit.name)
            yield unit, run_unit(unit, report)
