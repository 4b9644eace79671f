"""A world and contestants -> rows: who lost how much, and when."""

from quietshelf.loop.arrow import Party, Step, run
from quietshelf.loop.contest import Contestant, Setting, World
from quietshelf.loop.named import contestant
from quietshelf.loop.result import Result, Row, Summary, summary
from quietshelf.loop.simulation import simulate

__all__ = [
    "Contestant",
    "Party",
    "Result",
    "Row",
    "Setting",
    "Step",
    "Summary",
    "World",
    "contestant",
    "run",
    "simulate",
    "summary",
]
