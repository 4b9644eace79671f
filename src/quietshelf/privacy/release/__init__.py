"""Statistics -> private releases, one mechanism per file; public geometry; and the curators that use them.

A release of `quiet` starts in `quiet.Learner`, which charges its cost; `batch_pair` adds the noise, and `records` turns
all releases so far into the next estimate. That of the paper's policy starts in `dpmnl_curator`.
"""
