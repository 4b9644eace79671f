"""A world and contestants -> rows: who lost how much, and when."""

from quietshelf.research.loop.arrow import Party, Step, run
from quietshelf.research.loop.contest import Contestant, Setting, World
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.result import Result, Row, Summary, summary
from quietshelf.research.loop.simulation import simulate

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
