"""What a purge does now is said in words for operators, with a link to its workflow."""

import pytest

from config.settings import Settings
from sexton.check.model import CheckProgress
from sexton.insight.views import RunningWork
from sexton.interfaces.cli.render.results import RENDERERS
from sexton.replication.binlog.messages import GcProgress
from sexton.runtime.temporal.links import link_of
from sexton.runtime.temporal.works import PURGES
from sexton.wal.messages import PurgeProgress, PurgeRoundProgress


@pytest.mark.parametrize(("behind", "regions"), [(1, "1 region"), (2, "2 regions"), (1_200, "1,200 regions")])
def test_a_purge_counts_the_regions_that_it_waits_for(behind: int, regions: str) -> None:
    progress = PurgeProgress(topic="orders", doing="FLUSHING", behind=behind)

    assert PURGES.describe(progress, "orders").startswith(f"it waits for {regions} to flush old entries; ")
    assert PURGES.describe(progress, "orders").endswith("sexton wal now orders")


SETTINGS = Settings(deployment="prod-1", database_url="postgresql://unused/db")


@pytest.mark.parametrize(
    ("work", "name", "path"),
    [
        ("round", "7", "prod-1%2Frecycle%2Fshop"),
        ("check", "3", "prod-1%2Fcheck%2Fshop"),
        ("purge", "orders", "prod-1%2Fpurge-wal%2Forders"),
    ],
)
def test_link_names_the_workflow(work: str, name: str, path: str) -> None:
    temporal = SETTINGS.temporal.model_copy(update={"ui_url": "http://127.0.0.1:8233/", "namespace": "gc"})
    running = RunningWork(work=work, instance="shop", name=name, since=0, elapsed_ms=0)

    link = link_of(SETTINGS.model_copy(update={"temporal": temporal}), running)

    assert link == f"http://127.0.0.1:8233/namespaces/gc/workflows/{path}"
    assert link_of(SETTINGS, running) == ""


@pytest.mark.parametrize(
    ("command", "progress"),
    [
        ("check", CheckProgress(instance="shop", doing="PAUSED")),
        ("wal", PurgeProgress(topic="orders", doing="PAUSED")),
        ("wal round", PurgeRoundProgress(doing="PAUSED")),
        ("binlog", GcProgress(instance="shop", doing="PAUSED")),
    ],
)
def test_a_paused_run_names_the_command_that_resumes_it(
    command: str, progress: object, capsys: pytest.CaptureFixture[str]
) -> None:
    RENDERERS[f"{command} progress"](progress)

    subject = getattr(progress, "topic", "") or getattr(progress, "instance", "")
    assert capsys.readouterr().out.strip().endswith(f"go on: sexton {command} resume {subject}".strip())
