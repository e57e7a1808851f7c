"""Workers that read a view again at once."""

import pytest

from sexton.owners.sql import owner


@pytest.fixture(autouse=True)
def _slow_views_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker read a view again also if it failed slowly: the machine may be busy."""
    monkeypatch.setattr(owner, "SILENT_SECONDS", 0)
