"""`sexton after-restore` refuses to continue while a worker polls; with workers, `--check` counts what is lost."""

import asyncio
from pathlib import Path

import pytest
import typer

from config.settings import Settings
from sexton.deployment import Deployment
from sexton.interfaces.cli.commands import after_restore
from sexton.runtime.temporal.client import pollers
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.workflows.conftest import Served


@pytest.fixture
def service(served: Served, settings: Settings, temporal_server: DevServer) -> Deployment:
    temporal = settings.temporal.model_copy(update={"address": temporal_server.address})
    return Deployment(settings.model_copy(update={"temporal": temporal}), served.rig.db)


async def test_polling_workers_are_refused(service: Deployment, served: Served) -> None:
    await eventually_async("Temporal lists the worker", lambda: pollers(served.client, service.settings))
    with pytest.raises(after_restore.WorkersRun, match="stop every worker"):
        await asyncio.to_thread(after_restore._require_no_worker, service, True)


async def test_checks_say_what_is_missing(
    service: Deployment, served: Served, shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served.rig.instance(shop)
    served.rig.local(tmp_path / "v", instance=shop)

    with pytest.raises(typer.Exit) as ended:
        await asyncio.to_thread(after_restore._check_all, service)

    printed = capsys.readouterr().out
    assert ended.value.exit_code == after_restore.INCOMPLETE
    assert f"{shop}: check 1 PARTIAL, 0 objects LOST, confirmed" in printed
    assert "  missing: " in printed
    assert "then: sexton start --all" in printed
