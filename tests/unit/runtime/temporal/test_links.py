"""A link to the Temporal UI names the workflow that does the work."""

import pytest

from config.settings import Settings
from sexton.insight.views import RunningWork
from sexton.runtime.temporal.links import link_of

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
