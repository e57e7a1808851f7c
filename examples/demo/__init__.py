"""The story of ``make demo``: a database makes garbage, Sexton takes it away, and a listing that is not ours agrees."""
