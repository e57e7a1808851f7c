"""The last answer is shown while a newer one is read; a failure is not hidden behind it."""

import threading
from collections.abc import Iterator

import pytest

from sexton.interfaces.console.latest import Latest, wait_briefly
from tests.support.eventually import PATIENCE_SECONDS


class Reader:
    """Answers 1, 2, 3, … each time it is let through."""

    def __init__(self) -> None:
        self.gate, self.begun, self.reads = threading.Semaphore(0), threading.Semaphore(0), 0
        self.error: Exception | None = None

    def __call__(self, question: str) -> str:
        self.reads += 1
        answer = f"{question} {self.reads}"
        self.begun.release()
        assert self.gate.acquire(timeout=PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        return answer


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.gate.release(10)


def test_a_slow_answer_is_asked_for_once(reader: Reader) -> None:
    latest = Latest(reader, threads=2)
    first, second = latest.ask("shop"), latest.ask("shop")
    assert first.answer() is None
    reader.gate.release()
    wait_briefly([first, second])
    assert (first.answer(), second.answer()) == ("shop 1", "shop 1")


def test_the_last_answer_is_shown_while_a_newer_one_is_read(reader: Reader) -> None:
    latest = Latest(reader, threads=2)
    reader.gate.release()
    latest.ask("shop").future.result()
    asked = latest.ask("shop")
    wait_briefly([asked])
    assert asked.answer() == "shop 1"
    reader.gate.release()
    asked.future.result()
    assert asked.answer() == "shop 2"


def test_an_old_answer_is_not_shown(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sexton.interfaces.console.latest.OLDEST_SECONDS", 0.0)
    latest = Latest(reader, threads=2)
    reader.gate.release()
    latest.ask("shop").future.result()
    assert latest.ask("shop").answer() is None


def test_a_failure_is_raised_and_forgets_the_last_answer(reader: Reader) -> None:
    latest = Latest(reader, threads=2)
    reader.gate.release()
    latest.ask("shop").future.result()
    reader.error = ValueError("gone")
    reader.gate.release()
    asked = latest.ask("shop")
    with pytest.raises(ValueError, match="gone"):
        asked.future.result()
    with pytest.raises(ValueError, match="gone"):
        asked.answer()
    assert latest.ask("shop").answer() is None


def test_after_an_action_no_answer_from_before_it_is_shown(reader: Reader) -> None:
    latest = Latest(reader, threads=2)
    reader.gate.release()
    latest.ask("shop").future.result()
    before = latest.ask("shop")
    assert all(reader.begun.acquire(timeout=PATIENCE_SECONDS) for _ in range(2))
    latest.forget()
    after = latest.ask("shop")
    assert after.answer() is None
    reader.gate.release(2)
    assert {before.future.result(), after.future.result()} == {"shop 2", "shop 3"}
    assert latest.ask("shop").answer() == after.future.result()


def test_an_action_takes_back_what_nobody_answers_yet(reader: Reader) -> None:
    latest = Latest(reader, threads=1)
    latest.ask("shop")
    assert reader.begun.acquire(timeout=PATIENCE_SECONDS)
    waiting = latest.ask("blog")
    latest.forget()
    reader.gate.release(2)

    assert waiting.answer() is None
    assert latest.ask("blog").future.result() == "blog 2"
