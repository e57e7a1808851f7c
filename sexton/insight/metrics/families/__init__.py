"""Turn figures into metric families."""
