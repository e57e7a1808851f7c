"""A clock that only tests move, to put in the place of a module's ``time``."""


class Clock:
    """Stands still, but for whoever sleeps by it; ``monkeypatch.setattr(module, "time", Clock())``."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the seconds pass at once."""
        self.now += seconds
