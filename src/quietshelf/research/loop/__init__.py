"""A world and contestants -> rows: who lost how much, and when."""

from quietshelf.research.loop.arrow import Runner, Step, run
from quietshelf.research.loop.contest import Contestant, SimulationContext, World
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.result import Result, Row, Summary, summary
from quietshelf.research.loop.simulation import simulate

__all__ = [
    "Contestant",
    "Result",
    "Row",
    "Runner",
    "SimulationContext",
    "Step",
    "Summary",
    "World",
    "contestant",
    "run",
    "simulate",
    "summary",
]
