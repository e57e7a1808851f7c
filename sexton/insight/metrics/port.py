"""The settings that serving metrics needs, as a Protocol."""

from typing import Protocol


class MetricsListener(Protocol):
    """The settings of section ``metrics``."""

    @property
    def listen(self) -> str:
        """``host:port``; empty: no metrics."""
        ...

    @property
    def enable_recycler_stats_metrics(self) -> bool:
        """Whether the seed's ``recycler_…`` are exported too."""
        ...
