"""Keep the last answer to a slow question, so that a page which asks every two seconds need not wait for the next."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, NamedTuple, TypeVar

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")
WAIT_SECONDS = 0.05
"""How long a page waits for newer answers, if it can show older ones."""
FIRST_SECONDS = 1.5
"""How long a page waits for an answer that it has never had; then it is shown without the answer, and asks again."""
OLDEST_SECONDS = 30.0
"""A page does not show an answer that was read longer ago than this."""


class Asked(NamedTuple, Generic[Answer]):
    """A question that is being answered. ``known``: its last answer, if that is recent."""

    future: Future[Answer]
    known: Answer | None

    def answer(self) -> Answer | None:
        """Return the new answer, or the last one, or None, without waiting. Raise what the question raises."""
        is_answered = self.future.done() and not self.future.cancelled()
        return self.future.result() if is_answered else self.known


class Latest(Generic[Answer]):
    """Asks each question once at a time, however many pages show its answer.

    Args:
        read: answers a question; may take long.
        threads: how many questions are answered at once.
    """

    def __init__(self, read: Callable[[str], Answer], threads: int) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="console-latest")
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Answer, float]] = {}
        self._reading: dict[str, Future[Answer]] = {}

    def ask(self, question: str) -> Asked[Answer]:
        """Ask a question, unless it is being asked already."""
        with self._lock:
            if question not in self._reading:
                self._reading[question] = self._pool.submit(self._read_now, question)
            known, at = self._known.get(question, (None, 0.0))
            return Asked(self._reading[question], known if time.monotonic() - at < OLDEST_SECONDS else None)

    def forget(self) -> None:
        """Show no answer that was read, or begun to be read, before now: an action has changed what is true."""
        with self._lock:
            for future in self._reading.values():
                future.cancel()  # without effect on a question that is being answered
            self._known, self._reading = {}, {}

    def _read_now(self, question: str) -> Answer:
        with self._lock:
            known, reading = self._known, self._reading
        try:
            answer = self._read(question)
        except BaseException:
            with self._lock:
                reading.pop(question, None)
                known.pop(question, None)
            raise
        with self._lock:
            reading.pop(question, None)
            known[question] = (answer, time.monotonic())
        return answer


def answer_or_none(asked: Asked[Answer]) -> Answer | None:
    """Return an answer; None: it is not known yet, or cannot be read, perhaps because of another tenant."""
    try:
        return asked.answer()
    except Exception:
        log.exception("a part of a page cannot be read")
        return None


def wait_briefly(asked: Sequence[Asked[Any]]) -> None:
    """Give all questions a short time to be answered, and a little more to those without a known answer."""
    wait([question.future for question in asked], WAIT_SECONDS)
    wait([question.future for question in asked if question.known is None], FIRST_SECONDS)
