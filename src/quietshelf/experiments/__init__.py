"""A study, written down as TOML -> rows -> claims tested on them, figures, one page.

Needs the extra ``experiments`` (pyarrow, matplotlib); on a Dask cluster also ``scale``.
"""

from quietshelf.experiments.claims import Outcome, judge
from quietshelf.experiments.reproduce import PAPER, Reproduced, names, reproduce, study_named, write_all
from quietshelf.experiments.study import Study

__all__ = ["PAPER", "Outcome", "Reproduced", "Study", "judge", "names", "reproduce", "study_named", "write_all"]
