"""A record is one line or one JSON object; no text of an owner looks like a line or a field of its own."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from sexton.kernel import logs

HOSTILE = "b\n2026 ERROR x [instance=forged]\x1b[2J\u202e\u2028\x9b\ud800"


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    yield
    structlog.contextvars.clear_contextvars()


def line(format_: str, text: str, *arguments: object, exc_info: Any = None, **extra: object) -> str:
    """Return what is logged for a record of a library."""
    record = logging.LogRecord("some.library", logging.INFO, "", 1, text, arguments, exc_info)
    record.__dict__.update(extra)
    return logs.formatter(format_, deployment="d-1", role="control").format(record)


def raised(error: BaseException) -> Any:
    try:
        raise error
    except BaseException:  # noqa: BLE001  # returned as what it raised
        return sys.exc_info()


def test_the_context_stands_before_the_message_or_in_fields() -> None:
    logs.bind(instance="shop", round=3, attempt=None)

    found = json.loads(line("json", "range %d ends", 0))

    names = ("event", "level", "logger", "deployment", "role", "instance", "round", "attempt")
    values = ["range 0 ends", "info", "some.library", "d-1", "control", "shop", 3, None]
    assert [found.get(name) for name in names] == values
    assert found["timestamp"].endswith("Z")
    assert line("console", "begins").endswith(" INFO some.library [role=control instance=shop round=3] begins")


def test_hostile_text_stays_on_its_line() -> None:
    logs.bind(instance=f"shop] [instance=other {HOSTILE}")
    for format_ in ("console", "json"):
        shown = line(format_, "key %s", HOSTILE)

        assert {*"\n\x1b\u202e\u2028\x9b\ud800"}.isdisjoint(shown)


def test_hostile_text_ends_no_bracket_and_is_the_same_in_json() -> None:
    text = "a\n\x1b\u202e\u2028 naïve"
    logs.bind(instance="shop] INFO forged")

    assert '[role=control instance="shop] INFO forged"] begins' in line("console", "begins")
    assert json.loads(line("json", "%s", text))["event"] == text


def test_traceback_is_indented_and_escaped_or_a_field() -> None:
    first, *rest = line("console", "failed", exc_info=raised(ValueError(HOSTILE))).split("\n")
    shown = line("json", "failed", exc_info=raised(ValueError("wrong")))

    assert first.endswith("failed")
    assert len(rest) > 2
    assert all(text.startswith("  ") and "\x1b" not in text for text in rest)
    assert "\n" not in shown
    assert "ValueError: wrong" in json.loads(shown)["exception"]


def test_cancellation_is_one_line_without_traceback() -> None:
    for error in (asyncio.CancelledError("cancelled between pages"), asyncio.CancelledError()):
        shown = line("console", "Completing activity as failed", exc_info=raised(error))

        assert "\n" not in shown
        assert "Completing activity as failed: CancelledError" in shown


def test_workflow_of_temporals_logger_is_a_field() -> None:
    info = {"workflow_id": "d-1/recycle/shop", "run_id": "r", "workflow_type": "recycle-instance", "attempt": 1}

    found = json.loads(line("json", "paused", temporal_workflow=info))

    assert (found["workflow_id"], found["run_id"], found["workflow"]) == ("d-1/recycle/shop", "r", "recycle-instance")


def test_level_of_the_settings_counts(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logs.configure("json", "warning", deployment="d-1")
        logging.getLogger("a").info("hidden")
        logging.getLogger("a").warning("shown")
    finally:
        root.handlers[:], root.level = before

    assert [json.loads(text)["event"] for text in capsys.readouterr().err.splitlines()] == ["shown"]
