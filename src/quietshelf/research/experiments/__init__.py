"""A study in TOML -> rows -> tested claims, figures and a page.

Needs the extra ``experiments`` (pyarrow, matplotlib); on a Dask cluster also ``scale``.
"""

from quietshelf.research.experiments.claims import ClaimOutcome, judge
from quietshelf.research.experiments.reproduce import PAPER, Reproduced, names, reproduce, study_named
from quietshelf.research.experiments.study import Study

__all__ = ["PAPER", "ClaimOutcome", "Reproduced", "Study", "judge", "names", "reproduce", "study_named"]
