"""Files and tables of a shop -> features and rounds, validated."""
