"""Who may do what: keys, visitors' tickets, signatures, and the log of what admins did."""
