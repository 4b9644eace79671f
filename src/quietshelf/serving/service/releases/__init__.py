"""A full batch -> one release, announced before its noise is drawn; elections and restores (R5, R7, R8).

`schedule` says when, `releasing` takes a batch through the steps, and `steps` has them: seal, charge, draw,
enter, publish. `summing` adds a batch up, `epochs` announces it, `election` says which process may do so, and
`restore` checks that no commit was lost.
"""
