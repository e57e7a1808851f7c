"""Complete names from the database for the shell: a bounded look-up, and no name where that fails or takes long."""

import threading
from collections.abc import Callable

MAX_NAMES = 100
PATIENCE_SECONDS = 0.8


COMPLETED = ("INSTANCE", "VAULT", "PLAN", "ROUND", "HOLD", "TOPIC", "TOKEN")
"""Words of the help whose values are completed."""


def complete(word: str, begin: str) -> list[str]:
    """Return the names that begin so; none if they cannot be read within ``PATIENCE_SECONDS``."""
    from config.settings import load
    from sexton.database.engine import Database
    from sexton.insight.names import read_names

    found: list[str] = []

    def read() -> None:
        try:
            db = Database.open(load().require_database_url())
            found.extend(read_names(db, word, begin, MAX_NAMES))
        except Exception:  # noqa: BLE001 - a shell that completes shows no error
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(PATIENCE_SECONDS)
    return list(found)


def completing(word: str) -> Callable[[str], list[str]]:
    """Return what completes the values of a parameter that the help calls so."""

    def names(incomplete: str) -> list[str]:
        return complete(word, incomplete)

    return names
