"""Settings of this process's memory."""

import gc
from functools import cache

NEW_OBJECTS = 50_000
"""New containers after which Python searches the youngest ones for cycles; its default is 700."""


@cache  # once in each process
def search_cycles_rarely() -> None:
    """Let Python search for unreachable cycles less often, from the first call on; everything should be imported then.

    A step makes thousands of tuples and rows, which end by themselves. With the defaults a quarter of the CPU time of a
    round was spent on searching them, and all that was imported, for cycles (`python -m benchmarks keys`).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)
