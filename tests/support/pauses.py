"""Pauses of random lengths, from a seed that is printed: pytest shows it with a failed test."""

import random
import time


class Pauses:
    """Sleeps up to some seconds; usable as a hook of crash points."""

    def __init__(self, seconds: float) -> None:
        self._seconds, seed = seconds, random.randrange(1 << 32)
        print(f"pauses of up to {seconds} s, seed {seed}")
        self._random = random.Random(seed)

    def __call__(self, _: object = None) -> None:
        time.sleep(self._random.uniform(0, self._seconds))
