"""A webhook gets each problem that needs an operator when it appears and when it is gone, whatever fails meanwhile."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sexton.client import SIGNATURE_HEADER, is_signed
from sexton.contract import NewMark
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.doctor.stored import examine_notices
from sexton.kernel.process import in_background
from sexton.marks.kept import by_owner_silence
from sexton.recycle.model import RoundReport
from sexton.runtime import notices as module
from sexton.runtime.notices import Notices
from tests.servers.certificate import certificate
from tests.servers.http import Asked, answering
from tests.support.command import run
from tests.support.eventually import PATIENCE_SECONDS, eventually, eventually_async
from tests.support.problems import PROBLEMS, add_problems
from tests.support.rig import DEPLOYMENT, Rig, service_of

SECRET, PATH = "s3cr3t-" * 6, "/services/T0/B0?room=1"
HOUR = 3_601


@dataclass
class Webhook:
    """Remembers the requests, and answers each with ``status``; None: not at all."""

    url: str = ""
    status: int | None = 200
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> tuple[int, bytes] | None:
        self.asked.append(asked)
        return None if self.status is None else (self.status, b"")

    @property
    def got(self) -> list[Any]:
        return [json.loads(asked.body) for asked in self.asked]

    def new(self) -> list[tuple[str, str, str]]:
        """Return instance, cause and event of each request since the last call."""
        got = [(n["instance"], n["held_by"], n["event"]) for n in self.got]
        self.asked.clear()
        return got


@pytest.fixture(autouse=True)
def _any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no slow machine end a comparison early, and name a proxy that Sexton must not use."""
    monkeypatch.setattr(module, "MOST_SECONDS", float("inf"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")


@pytest.fixture
def quiet(rig: Rig) -> Rig:
    """An instance without a problem, however late it is, and though no worker runs."""
    rig.update("instance", mode="observe")
    rig.set_year_ahead("instance", "turn_at")
    return rig


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    with answering(hook.answer) as url:
        hook.url = url + PATH
        yield hook


def notices(rig: Rig, url: str, *, secret: str = "", seconds: float = PATIENCE_SECONDS, **settings: Any) -> Notices:
    """Return what a worker of the rig's deployment posts with."""
    return Notices(service_of(rig.db, notices={"url": url, "secret": secret}, **settings), seconds)


def quarantine(rig: Rig, name: str = "q", reason: str | None = "BAD_KEY") -> None:
    """Quarantine a mark of ``shop``, a problem that nothing else changes; ``reason``: None, release it."""
    if rig.row("dropped", name) is None:
        rig.mark("dropped", NewMark(id=name, vault="disk", keys=(f"{name}.dat",)))
    rig.update("mark", {"id": name}, quarantined_reason=reason)


def finding(rig: Rig, url: str = "") -> DoctorFinding | None:
    """Return what the doctor finds about notices."""
    return next(examine_notices(service_of(rig.db, notices={"url": url})), None)


def test_webhook_gets_each_problem_of_status_once(
    rig: Rig, webhook: Webhook, capsys: pytest.CaptureFixture[str]
) -> None:
    add_problems(rig)
    worker = notices(rig, webhook.url)

    worker.run()
    worker.run()

    expected = [(name, severity.name.lower()) for name, severity in PROBLEMS.items() if not severity.is_ordered]
    assert [(notice["instance"], notice["severity"]) for notice in webhook.got] == expected
    assert {(n["event"], n["deployment"], n["since_at"] > 0) for n in webhook.got} == {("appeared", DEPLOYMENT, True)}
    worst = webhook.got[0]
    sentence = json.loads(run(rig, capsys, "status", "--json").out)["sentence"]
    assert worst["text"] == f"{DEPLOYMENT} needs an operator: {sentence.partition('the worst first: ')[2]}"
    assert (worst["what"], worst["way_out"]) == ("2 objects, confirmed", "sexton check findings lost --type LOST")
    (blocker,) = json.loads(run(rig, capsys, "blockers", "failed", "--json").out)["items"]
    failed = next(n for n in webhook.got if n["instance"] == "failed")
    assert {name: failed[name] for name in blocker} == blocker


def test_orders_of_operators_are_not_posted(rig: Rig, webhook: Webhook) -> None:
    add_problems(rig)
    rig.sql("DELETE FROM {}instance WHERE id NOT IN ('stopped', 'paused', 'observes', 'shop')")
    notices(rig, webhook.url).run()

    assert webhook.new() == []


def test_a_notice_is_signed_if_a_secret_is_set(quiet: Rig, webhook: Webhook) -> None:
    quarantine(quiet)
    notices(quiet, webhook.url, secret=SECRET).run()
    quarantine(quiet, "other", "UNKNOWN_VAULT")
    notices(quiet, webhook.url).run()

    signed, unsigned = webhook.asked
    signature = signed.headers[SIGNATURE_HEADER]
    assert (signed.path, signed.headers["Content-Type"]) == (PATH, "application/json")
    assert is_signed(SECRET, signature, PATH, signed.body, time.time())
    assert not is_signed(SECRET, signature, PATH, signed.body + b" ", time.time())
    assert SIGNATURE_HEADER not in unsigned.headers


def test_a_problem_that_is_gone_is_posted_as_gone(quiet: Rig, webhook: Webhook) -> None:
    worker = notices(quiet, webhook.url)
    quarantine(quiet)
    worker.run()
    quiet.later(HOUR)
    quarantine(quiet, reason=None)
    worker.run()
    worker.run()

    assert webhook.got[-1]["text"] == f"{DEPLOYMENT} no longer needs an operator: shop: quarantined: BAD_KEY: 1 mark"
    assert webhook.new() == [("shop", "quarantined: BAD_KEY", event) for event in ("appeared", "gone")]
    assert quiet.count("notice") == 0


def test_a_problem_that_flaps_is_posted_once_an_hour(quiet: Rig, webhook: Webhook) -> None:
    worker, posted = notices(quiet, webhook.url), []
    for minutes in range(0, 180, 10):
        quarantine(quiet, reason="BAD_KEY" if minutes % 20 == 0 else None)
        worker.run()
        posted += [(minutes, event) for _, _, event in webhook.new()]
        quiet.later(600)

    # Gone an hour after it was posted at the earliest; until then the webhook believes that it is there.
    assert posted == [(0, "appeared"), (70, "gone"), (80, "appeared"), (150, "gone"), (160, "appeared")]


def test_new_words_and_numbers_are_no_new_problem(quiet: Rig, webhook: Webhook) -> None:
    worker, now = notices(quiet, webhook.url), quiet.now()
    for n in range(3):
        report = RoundReport(round=n, instance="shop", state="PARTIAL", kept={by_owner_silence(f"request {n}"): n + 1})
        ended = {"state": "SUCCEEDED", "started_at": now, "ended_at": now, "report": report.model_dump(mode="json")}
        quiet.insert("round", instance="shop", run_id=str(n), **ended)
        quarantine(quiet, f"q{n}")
        worker.run()

    assert webhook.new() == [("shop", "owner: request 0", "appeared"), ("shop", "quarantined: BAD_KEY", "appeared")]
    assert {row.problem["count"] for row in quiet.rows("notice")} == {3}


def test_text_of_an_owner_mentions_nobody(quiet: Rig, webhook: Webhook) -> None:
    report = RoundReport(round=1, instance="shop", state="FAILED", error="<!channel> & \x1b[2J" + "x" * 9_000)
    ended = {"state": "FAILED", "started_at": 1, "ended_at": 2, "report": report.model_dump(mode="json")}
    quiet.insert("round", instance="shop", run_id="1", **ended)
    notices(quiet, webhook.url).run()

    (notice,) = webhook.got
    assert "(&lt;!channel&gt; &amp; \\u001b[2Jxxx" in notice["text"]
    assert notice["text"].endswith("xxx. Way out: sexton round show 1")
    assert len(notice["why"]) == module.MOST_TEXT


def test_two_workers_post_each_problem_once(quiet: Rig) -> None:
    """The second one comes while the first one waits for an answer, and at any other moment."""
    for n in range(5):
        quarantine(quiet, f"q{n}", f"REASON_{n}")
    hook, first_asks, second_is_done = Webhook(), threading.Event(), threading.Event()

    def answer(asked: Asked) -> tuple[int, bytes] | None:
        first_asks.set()
        assert second_is_done.wait(PATIENCE_SECONDS)
        return hook.answer(asked)

    with answering(answer) as url:
        other = Rig(quiet.url)
        first, second = notices(quiet, url), notices(other, url)
        thread = threading.Thread(target=first.run)
        thread.start()
        assert first_asks.wait(PATIENCE_SECONDS)
        second.run()
        asked_meanwhile = len(hook.asked)
        second_is_done.set()
        thread.join()
        together = [threading.Thread(target=worker.run) for worker in (first, second) for _ in range(4)]
        quarantine(quiet, "q5", "REASON_5")
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
        other.db.close()

    assert asked_meanwhile == 0
    assert Counter(hook.new()) == {("shop", f"quarantined: REASON_{n}", "appeared"): 1 for n in range(6)}


KILLED = """
import sys
from sexton.runtime.notices import Notices
from tests.support.rig import open_database, service_of

Notices(service_of(open_database(sys.argv[1]), notices={"url": sys.argv[2]}), 1e6).run()
"""


@pytest.mark.slow
def test_request_of_a_killed_worker_is_repeated(quiet: Rig) -> None:
    quarantine(quiet)
    hook, may_answer = Webhook(), threading.Event()

    def answer(asked: Asked) -> tuple[int, bytes] | None:
        answered = hook.answer(asked)
        assert may_answer.wait(PATIENCE_SECONDS)
        return answered

    with answering(answer) as url:
        worker = subprocess.Popen([sys.executable, "-c", KILLED, quiet.url, url])
        eventually("it posts", lambda: hook.asked)
        stored = quiet.rows("notice")
        worker.kill()
        worker.wait()
        may_answer.set()
        # PostgreSQL notices the end of its client when it reads from it.
        eventually("another one posts", lambda: notices(quiet, url).run() or len(hook.asked) > 1)

    assert [(row.key, row.tried_at) for row in stored] == [("quarantined: BAD_KEY", None)]
    assert hook.new() == [("shop", "quarantined: BAD_KEY", "appeared")] * 2


def test_failing_webhook_is_visible_and_tried_again(
    quiet: Rig, webhook: Webhook, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = notices(quiet, webhook.url)
    quarantine(quiet)
    quarantine(quiet, "other", "UNKNOWN_VAULT")
    before, found = (finding(quiet), finding(quiet, webhook.url)), []
    for webhook.status in (500, None, 302):
        worker.run()
        found.append(finding(quiet))
    failed = len(webhook.new())
    printed = run(quiet, capsys, "doctor", "--json").out
    webhook.status = 200
    worker.run()

    assert before == (None, DoctorFinding("OK", "notices", "none waits for the webhook to accept it"))
    says = ("127.0.0.1 answers 500", "127.0.0.1 does not answer: RemoteProtocolError", "127.0.0.1 answers 302")
    assert [(f.state, f.detail) for f in found if f is not None] == [("WARN", text) for text in says]
    assert found[-1] is not None
    assert found[-1]._asdict() in json.loads(printed)["items"]
    assert failed == len(says)  # one request at each look, until one is accepted
    assert [event for _, _, event in webhook.new()] == ["appeared"] * 2
    assert finding(quiet) is None
    warnings = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert warnings == ["a notice was not accepted, and is repeated: 127.0.0.1 answers 500"]


def test_webhook_that_hangs_costs_one_attempt(quiet: Rig) -> None:
    quarantine(quiet)
    quarantine(quiet, "other", "UNKNOWN_VAULT")
    hook, ended = Webhook(), threading.Event()

    def hang(asked: Asked) -> None:
        hook.answer(asked)
        ended.wait(PATIENCE_SECONDS)

    with answering(hang) as url:
        notices(quiet, url, seconds=0.3).run()
        ended.set()

    assert len(hook.asked) <= 1
    assert [row.error for row in quiet.rows("notice") if row.error] == ["127.0.0.1 does not answer within 0.3 s"]


def test_a_comparison_without_time_left_posts_at_the_next(
    quiet: Rig, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine(quiet)
    posted = []
    for seconds in (0.0, float("inf")):
        monkeypatch.setattr(module, "MOST_SECONDS", seconds)
        notices(quiet, webhook.url).run()
        posted.append(len(webhook.new()))

    assert posted == [0, 1]


def test_missing_http_client_is_named_with_its_extra(quiet: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    quarantine(quiet)
    monkeypatch.setitem(sys.modules, "httpx", None)
    notices(quiet, "http://127.0.0.1:1").run()

    assert [row.error for row in quiet.rows("notice")] == ["httpx is not installed; run: pip install 'sexton[client]'"]


def test_one_refused_notice_delays_no_other(quiet: Rig) -> None:
    hook = Webhook()

    def answer(asked: Asked) -> tuple[int, bytes] | None:
        hook.status = 400 if b"REASON_0" in asked.body else 200
        return hook.answer(asked)

    for n in range(4):
        quarantine(quiet, f"q{n}", f"REASON_{n}")
    with answering(answer) as url:
        for _ in range(2):
            notices(quiet, url).run()

    assert {row.key: row.error for row in quiet.rows("notice") if row.posted_at is None} == {
        "quarantined: REASON_0": "127.0.0.1 answers 400"
    }


def test_a_private_authority_is_trusted_if_it_is_set(quiet: Rig, tmp_path: Path) -> None:
    files, hook = certificate(tmp_path), Webhook()
    quarantine(quiet)
    with answering(hook.answer, files) as url:
        notices(quiet, url).run()
        (refused,) = quiet.rows("notice")
        notices(quiet, url, ca_certs=str(files.authority)).run()

    assert "CERTIFICATE_VERIFY_FAILED" in refused.error
    assert hook.new() == [("shop", "quarantined: BAD_KEY", "appeared")]


def test_plain_http_to_another_machine_needs_a_permission(quiet: Rig) -> None:
    quarantine(quiet)
    errors = []
    for insecure_http in (False, True):
        notices(quiet, "http://webhook.invalid/T0/B0", insecure_http=insecure_http).run()
        errors += [row.error for row in quiet.rows("notice")]

    assert errors[0].startswith("http://webhook.invalid is not encrypted: use an https URL")
    assert errors[1].startswith("webhook.invalid does not answer: ")


async def test_no_failure_ends_the_posting(
    quiet: Rig, webhook: Webhook, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.01)
    quarantine(quiet)
    quiet.sql("ALTER TABLE {}notice RENAME TO away")
    async with in_background(notices(quiet, webhook.url).post_regularly()):
        await eventually_async("it warns", lambda: "notices are not posted now, because the database" in caplog.text)
        quiet.insert(
            "round", instance="shop", run_id="1", state="FAILED", started_at=1, ended_at=2, report={"round": "?"}
        )
        quiet.sql("ALTER TABLE {}away RENAME TO notice")
        await eventually_async("it logs a defect", lambda: "validation error" in caplog.text)
        quiet.sql("DELETE FROM {}round")
        await eventually_async("it posts", lambda: webhook.asked)

    assert webhook.new() == [("shop", "quarantined: BAD_KEY", "appeared")]
