"""Replicas and reports, as rows, and the keeper that retains versions for them."""
