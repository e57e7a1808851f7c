"""Plan a round: fix the cutoff, the counts, and what waits for approval."""
