"""The stack of `sexton up` checks and deletes many objects on Spark, and its reports say so."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.runtime.embedded.stack import Stack
from tests.integration.check.conftest import Owned, file_keys, live_view
from tests.support.rig import DEPLOYMENT, listing, put
from tests.surroundings import variables

THRESHOLD = 20


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setenv("SEXTON_DEPLOYMENT", DEPLOYMENT)
    monkeypatch.setenv("SEXTON_SPARK__SPARK_THRESHOLD_OBJECTS", str(THRESHOLD))
    running = Stack(tmp_path / "stack")
    try:
        running.start(print)
        monkeypatch.delenv("SEXTON_DEPLOYMENT")  # from now on it is in the home
        running.start_worker()
        running.launch_spark_worker()
        running.await_worker("worker-spark")
        yield running
    finally:
        running.stop()


def sexton(stack: Stack, *words: str, code: int = 0) -> str:
    command = [Path(sys.executable).with_name("sexton"), *words]
    done = subprocess.run(command, env=variables(stack.home), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_check_and_a_heavy_range_run_on_spark(stack: Stack, tmp_path: Path) -> None:
    environment = stack.environment()
    made = Owned(environment["SEXTON_DATABASE_URL"], live_url=environment["SEXTON_LIVE_DATABASE_URL"])
    with live_view(made):
        made.register(tmp_path / "v")
        made.write_live(*file_keys(THRESHOLD + 10))
        made.write_old("data/t9/gone_0.dat")
        (made.root / file_keys(THRESHOLD)[4]).unlink()

        check = sexton(stack, "check", "run", "shop", code=4)  # a loss is planted

    assert "note: compared on Spark" in check
    assert made.open_findings() == {"LOST": {file_keys(THRESHOLD)[4]}, "ORPHAN": {"data/t9/gone_0.dat"}}

    doomed = [f"doomed/{n}.dat" for n in range(THRESHOLD + 1)]
    for key in doomed:
        put(made.root, key)
    made.mark("dropped", *(NewMark(id=f"t{n}", vault="disk", keys=(key,)) for n, key in enumerate(doomed)))
    made.later(10_801)
    round_report = sexton(stack, "round", "run", "shop")

    assert "dropped: deleted on Spark" in round_report
    assert not [key for key in listing(made.root) if key.startswith("doomed/")]
    made.db.close()
