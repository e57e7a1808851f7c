"""A worker beside a storage node starts only in its own directory, and serves the backend's queue."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from sexton.interfaces.cli import main as cli
from sexton.interfaces.cli.commands.serving import served_backend
from sexton.kernel.errors import BadInput
from sexton.kernel.trust import PlainHttp
from sexton.replication.agent.model import SweepOrder, Swept
from sexton.replication.agent.serving import ServedBackend, catching_up, open_sweeper, token
from sexton.replication.errors import NoStore, OtherBackend
from tests.integration.replication.agent.conftest import TOKEN, Api
from tests.integration.replication.agent.node import Node
from tests.servers.temporal import DevServer
from tests.support.eventually import eventually_async
from tests.support.rig import DEPLOYMENT
from workflows import ids


@workflow.defn
class Sweep:
    """Asks one backend to sweep."""

    @workflow.run
    async def run(self, queue: str, order: SweepOrder) -> Swept:
        return await workflow.execute_activity(
            "sweep_cuts",
            order,
            task_queue=queue,
            result_type=Swept,
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=10),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


async def _sweep(client: Client, name: str, order: SweepOrder) -> Swept:
    queue = f"{name}-asks"
    async with Worker(client, task_queue=queue, workflows=[Sweep], workflow_runner=UnsandboxedWorkflowRunner()):
        arguments = [ids.backend_queue(DEPLOYMENT, "7"), order]
        found: Swept = await client.execute_workflow(Sweep.run, args=arguments, id=name, task_queue=queue)
        return found


async def _refusal(client: Client, name: str, order: SweepOrder) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await _sweep(client, name, order)
    assert isinstance(failed.value.cause, ActivityError)
    assert isinstance(failed.value.cause.cause, ApplicationError)
    return failed.value.cause.cause


async def test_a_starting_backend_sweeps_missed_cuts(node: Node, api: Api) -> None:
    node.tablet("a")
    node.binlog("a", 1)
    api.answers = [{"cuts": [{"uid": "a", "tablet": "ta", "version": 1}], "next": ""}, {"taken": 1, "ignored": 0}]

    async def acknowledged() -> bool:
        return len(api.asked) >= 2

    with open_sweeper(ServedBackend("7", node.directory, api.url, "shop"), {"SEXTON_NODE_TOKEN": TOKEN}) as sweeper:
        async with catching_up(sweeper):
            await eventually_async("it acknowledges", acknowledged)

    assert api.asked[1][3]["done"] == [{"uid": "a", "version": 1, "outcome": "done", "detail": ""}]
    assert node.files("a") == []


async def test_a_backend_starts_while_the_server_is_away(
    node: Node, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    api.answers = [(401, {"detail": "this token is not known"})]

    async def told() -> bool:
        return "this token is not known" in caplog.text

    with open_sweeper(ServedBackend("7", node.directory, api.url, "shop"), {"SEXTON_NODE_TOKEN": TOKEN}) as sweeper:
        async with catching_up(sweeper):
            await eventually_async("its failure is logged", told)

    assert TOKEN not in caplog.text


def test_a_backend_does_not_start_without_its_directory(node: Node, tmp_path: Path) -> None:
    environment = {"SEXTON_NODE_TOKEN": TOKEN}
    with pytest.raises(NoStore), open_sweeper(ServedBackend("7", tmp_path), environment):
        pass
    with pytest.raises(OtherBackend), open_sweeper(ServedBackend("8", node.directory), environment):
        pass
    with pytest.raises(BadInput), open_sweeper(ServedBackend("a/b", node.directory), environment):
        pass
    with pytest.raises(BadInput, match="SEXTON_NODE_TOKEN"), open_sweeper(ServedBackend("7", node.directory), {}):
        pass
    far = ServedBackend("7", node.directory, "http://sexton.example:8470")
    with pytest.raises(PlainHttp), open_sweeper(far, environment):
        pass
    with open_sweeper(far, environment | {"SEXTON_INSECURE_HTTP": "true"}):
        pass


def test_a_token_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    assert token({"SEXTON_NODE_TOKEN": TOKEN}) == token({"SEXTON_NODE_TOKEN_FILE": str(tmp_path / "token")}) == TOKEN
    with pytest.raises(BadInput, match="cannot be read"):
        token({"SEXTON_NODE_TOKEN_FILE": str(tmp_path / "none")})


def test_the_command_line_names_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Path("/d")

    assert served_backend("control", "", None, "", "") is None
    assert served_backend("backend", "7", directory, "", "") == ServedBackend("7", directory)
    monkeypatch.setenv("SEXTON_API_URL", "http://y:2")
    assert served_backend("spark", "", None, "", "") is None
    assert served_backend("backend", "7", directory, "", "") == ServedBackend("7", directory, "http://y:2")
    named = served_backend("backend", "7", directory, "http://x:1", "shop")
    assert named == ServedBackend("7", directory, "http://x:1", "shop")


def test_a_wrong_command_line_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for line, printed in [
        ("--role backend", "error: --role backend needs --backend-id and --data-dir\n"),
        ("--role backend --backend-id 7", "error: --role backend needs --backend-id and --data-dir\n"),
        ("--backend-id 7", "--instance are for --role backend\n"),
        ("--role spark --api http://x", "--instance are for --role backend\n"),
        ("--role sparks", "'sparks' is not one of 'control', 'spark', 'backend'"),
    ]:
        monkeypatch.setattr(sys, "argv", ["sexton", "worker", "run", *line.split()])

        assert cli.run() == cli.WRONG_USAGE
        assert printed in capsys.readouterr().err


@pytest.mark.slow
async def test_the_role_sweeps_until_its_signal_without_a_database(
    node: Node, api: Api, temporal_server: DevServer, tmp_path: Path
) -> None:
    node.tablet("a")
    node.binlog("a", 1)
    cuts = [{"uid": "a", "tablet": "ta", "version": 1}]
    api.answers = [{"cuts": cuts, "next": ""}, {"taken": 1, "ignored": 0}, {"cuts": [], "next": ""}]
    environment = {
        "PATH": "/usr/bin:/bin",
        "SEXTON_HOME": str(tmp_path / "home"),
        "SEXTON_DEPLOYMENT": DEPLOYMENT,
        "SEXTON_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "SEXTON_TEMPORAL__ADDRESS": temporal_server.address,
        "SEXTON_NODE_TOKEN": TOKEN,
    }
    line = ["--role", "backend", "--backend-id", "7", "--data-dir", str(node.directory), "--api", api.url]
    line += ["--instance", "shop"]
    log, name = tmp_path / "log", f"role-{tmp_path.name}"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "sexton", "worker", "run", *line], env=environment, stdout=said, stderr=said
        )
    try:
        client = await temporal_server.connect()
        swept = await _sweep(client, name, SweepOrder(instance="shop"))
        foreign = await _refusal(client, f"{name}-2", SweepOrder(instance="other"))
        (node.directory / "meta.db").rename(node.directory / "gone.db")
        unmounted = await _refusal(client, f"{name}-3", SweepOrder())
        process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0, log.read_text()
    finally:
        process.kill()

    assert (swept.failed, node.files("a")) == (0, [])
    assert foreign.type == "OtherBackend"
    assert (unmounted.type, unmounted.non_retryable) == ("NoStore", False)
    assert "backend worker of" in log.read_text()
    assert TOKEN not in log.read_text()
