"""`sexton protection selftest` proves that protections work, step by step, or says which step did not."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sexton.contract import NewMark
from sexton.interfaces.cli.commands.protection import _SelfTestRun
from sexton.protection.model import ProtectionState
from tests.e2e.conftest import Run, items
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put

STEPS = (
    *("sample", "register", "renew", "first round", "protected", "explained"),
    *("finish", "watermark", "second round", "released"),
)


@pytest.fixture
def root(shop: Rig, tmp_path: Path) -> Path:
    """The directory of vault ``disk``; one of its two objects has a mark, and is due."""
    put(tmp_path / "v", "data/live.dat")
    shop.registry.enable("shop")
    return tmp_path / "v"


def steps(result: Any) -> dict[str, str]:
    return {step["step"]: step["seen"] for step in result["steps"]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["filter", "objects"])
def test_selftest_deletes_an_object_only_after_its_release(
    shop: Rig, root: Path, worker: None, online: Run, kind: str
) -> None:
    newest = shop.calls.newest()

    ran = online("protection", "selftest", "shop", "--kind", kind, "--yes", "--json")
    calls = [row for row in shop.calls.rows(newest, 99) if row.begun_id is None]

    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert (result["passed"], result["due"], result["unmarked"]) == (True, ["disk/data/a.dat"], ["disk/data/live.dat"])
    assert tuple(steps(result)) == STEPS
    assert all(step["proved"] and not step["wrong"] for step in result["steps"])
    assert steps(result)["register"].startswith("a filter" if kind == "filter" else "2 objects")
    assert "never reported one" in steps(result)["watermark"]
    assert listing(root) == {"data/live.dat": 10}
    second, first = shop.all_stores.reports.find_round("shop", last=2)
    assert [first.round, second.round] == result["rounds"]
    assert (kept_texts(first), first.deleted, second.deleted) == ({f"protection {result['job']}": 1}, 0, 1)
    assert items(online("protection", "list", "--json")) == []
    assert shop.count("counter", name="protections", label="NO_WATERMARK") == 0  # it would raise an alert
    assert sorted((c.source.partition("@")[0], c.action) for c in calls) == [
        ("cli", "protection selftest"),
        ("cli", "round run"),
        ("cli", "round run"),
        ("worker", "plan"),
        ("worker", "plan"),
        ("worker", "round"),
        ("worker", "round"),
    ]


@pytest.mark.slow
def test_selftest_waits_for_the_owners_watermark(shop: Rig, root: Path, worker: None, online: Run) -> None:
    shop.protections.watermark("shop", 5)

    def report() -> set[str]:
        def finished() -> list[int | None]:
            soft = [p for p in shop.protections.list_protections("shop") if p.state is ProtectionState.SOFT]
            return [p.valid_ts for p in soft]

        assert eventually("the protection is finished", finished) == [5]
        shop.protections.watermark("shop", 6)
        return set(listing(root))

    with ThreadPoolExecutor(1) as pool:
        owner = pool.submit(report)
        ran = online("protection", "selftest", "shop", "--verbose", "--yes")
        before = owner.result()

    assert ran.returncode == 0, ran.stderr
    assert before == {"data/a.dat", "data/live.dat"}
    assert set(listing(root)) == {"data/live.dat"}
    assert "until the watermark is above 5" in ran.stdout
    assert "sexton protection watermark shop N" in ran.stderr
    assert {"disk/data/a.dat", "disk/data/live.dat", "protections work"} <= set(ran.stdout.splitlines())
    assert shop.count("counter", name="protections", label="PASSED") == 1


@pytest.mark.slow
def test_selftest_names_what_was_lost(
    shop: Rig, root: Path, worker: None, online: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_round = _SelfTestRun.run_round

    def unprotected(test: _SelfTestRun, step: str) -> Any:
        if step == "first round":
            shop.protections.release("shop", test.job, "by an operator, too early")
        return run_round(test, step)

    monkeypatch.setattr(_SelfTestRun, "run_round", unprotected)
    ran = online("protection", "selftest", "shop", "--yes")

    assert ran.returncode == 1
    assert "protected: 1 of 2 objects exist: NOT PROVED" in ran.stdout
    assert "not as it must be: disk/data/a.dat; see: sexton why disk/data/a.dat" in ran.stderr
    assert "protections work" not in ran.stdout


def test_selftest_is_refused_where_it_can_prove_nothing(shop: Rig, root: Path, offline: Run) -> None:
    def refusal(*words: str) -> tuple[int, str]:
        ran = offline("protection", "selftest", "shop", *words)
        assert listing(root).keys() >= {"data/a.dat"}
        assert shop.count("protection") == 0
        return ran.returncode, ran.stderr

    unconfirmed, silent, bare = refusal(), refusal("--json"), refusal("--timeout", "600")
    (root / "data/live.dat").unlink()
    all_marked = refusal("--yes")
    put(root, "data/live.dat")
    offline("hold", "add", "shop", "--for", "7d", "--reason", "audit")
    held = refusal("--yes")
    offline("hold", "release", "1")
    shop.undrop_marks("dropped", "t1")
    idle = refusal("--yes")
    shop.mark("dropped", NewMark(id="t2", vault="disk", keys=("data/a.dat",)))
    early = refusal("--yes")
    shop.registry.observe("shop")
    observing = refusal("--yes")

    assert (unconfirmed[0], "1 sampled object in the second" in unconfirmed[1]) == (1, True)
    assert (silent[0], "add --yes" in silent[1]) == (64, True)
    assert (bare[0], "is not a duration" in bare[1]) == (64, True)
    assert (all_marked[0], "no object without a mark was found" in all_marked[1]) == (1, True)
    assert (held[0], "sexton blockers shop" in held[1]) == (1, True)
    assert (idle[0], "no mark waits" in idle[1]) == (1, True)
    assert (early[0], "the next mark, of kind dropped, is due " in early[1]) == (1, True)
    assert (observing[0], "sexton enable shop" in observing[1]) == (1, True)


@pytest.mark.slow
def test_selftest_that_is_left_releases_its_protection(
    shop: Rig, root: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """There is no worker: its first round never ends."""
    command = [sys.executable, "-m", "sexton", "protection", "selftest", "shop", "--yes"]
    left = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:  # a renewal sets the watermark to wait for
        eventually("it is renewed", lambda: shop.count("protection", valid_ts=0) or left.poll() is not None)
        left.send_signal(signal.SIGINT)
        _, errors = left.communicate(timeout=PATIENCE_SECONDS)
    finally:
        left.kill()

    assert left.returncode == 130, errors
    assert "is released" in errors
    assert "Traceback" not in errors
    assert shop.count("protection") == 0


@pytest.mark.slow
def test_selftest_ends_its_waits_and_its_protection(shop: Rig, root: Path, online: Run) -> None:
    ran = online("protection", "selftest", "shop", "--yes", "--timeout", "0s")

    assert ran.returncode == 1
    assert "stopped waiting after 0 s; the round of shop goes on" in ran.stderr
    assert "is released" in ran.stderr
    assert shop.count("protection") == 0
    assert set(listing(root)) == {"data/a.dat", "data/live.dat"}
