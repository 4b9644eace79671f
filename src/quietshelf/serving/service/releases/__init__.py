"""A full batch -> one release, announced before its noise is drawn; who releases; what a restore costs (R5, R7, R8)."""
