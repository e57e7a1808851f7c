"""Log what any client can cause as often as it likes."""

import logging
import time

LOG_SECONDS = 60


class RareWarning:
    """A warning that is logged at most once a minute. Its text begins with how often it was due since the last one."""

    def __init__(self, log: logging.Logger, text: str) -> None:
        self._log, self._text = log, text
        self._number, self._logged_at = 0, -float("inf")

    def count(self, source: str) -> None:
        """Log that it happened again, because of a client at this address, if a minute has passed."""
        self._number += 1
        if time.monotonic() - self._logged_at >= LOG_SECONDS:
            self._log.warning(self._text, self._number, source)
            self._number, self._logged_at = 0, time.monotonic()
