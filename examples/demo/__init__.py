"""The story of ``make demo``: a database makes garbage, Sexton takes it away, and a listing that is not ours agrees."""

ONE_PAGE_AT_ONCE = {"SEXTON_RECYCLE__INSTANCE_RECYCLER_WORKER_POOL_SIZE": "1"}
"""For the demo's workers: with the default of 8 a round could be over before a listing has seen it."""
SMALL_LAG = {"SEXTON_WAL__TRIGGER_FLUSH_ENTRIES": "1000"}
"""For workers and commands: by the default a region is asked to flush when it holds a million entries of a topic."""
FOR_WORKERS = ONE_PAGE_AT_ONCE | SMALL_LAG
