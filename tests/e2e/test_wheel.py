"""The wheel, installed outside the repository, serves an application that has packages of the same names as ours."""

import json
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from sexton.runtime.embedded.ports import free_port
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.installation import ROOT, Installation, build_wheel

pytestmark = pytest.mark.slow

PAGE = re.compile(r"docs/[a-z0-9-]+\.md")
EXTRAS = {"api", "backend", "client", "console", "embedded", "kafka", "spark"}
NAMES = """
import json
from temporalio import activity, workflow
import {root}activities as activities, {root}workflows.registry as registry

classes = [c for c in vars(activities).values() if isinstance(c, type)]
methods = [m for c in classes for m in vars(c).values() if hasattr(m, "__temporal_activity_definition")]
names = [activity._Definition.must_from_callable(m).name for m in methods]
print(json.dumps([sorted(names), [workflow._Definition.must_from_class(w).name for w in registry.ALL]]))
"""
LAYOUT = """
import zipfile
from pathlib import Path
from sexton.runtime.spark.session import archive
from sexton.workflows.registry import sandbox

names = zipfile.ZipFile(archive(Path("."))).namelist()
assert len(names) == len(set(names)) > 400
assert "sexton/config/settings.py" in names and {name.split("/")[0] for name in names} == {"sexton"}
passed = sandbox().restrictions.passthrough_modules
assert "sexton.activities" in passed and passed.isdisjoint({"sexton", "sexton.workflows"})
"""
MARK = """
import os
import config, workflows, worker
from sqlalchemy import create_engine
from sexton import client, contract

assert (config.OWNER, workflows.OWNER, worker.OWNER) == ("app", "app", "app")
with create_engine(os.environ["SEXTON_DATABASE_URL"]).begin() as db:
    contract.mark(db, "trial", "dropped", [contract.NewMark(id="r-1", vault="disk", keys=("data/0.dat",))])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installation:
    return Installation(tmp_path_factory.mktemp("complete"), wheel, EXTRAS)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """The directory of an application with a ``config``, ``workflows`` and ``worker`` of its own."""
    for file in ("config/__init__.py", "workflows/__init__.py", "worker.py"):
        path = tmp_path / "app" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('OWNER = "app"\n')
    return tmp_path / "app"


def variables(installation: Installation, **extra: str) -> dict[str, str]:
    """Return an environment that names nothing of the tests' own."""
    return {"PATH": f"{installation.programs}:/usr/bin:/bin", "HOME": str(installation.programs), **extra}


def run(installation: Installation, directory: Path, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    env = variables(installation, **extra)
    command = [installation.programs / words[0], *words[1:]]
    return subprocess.run(command, cwd=directory, env=env, input="", capture_output=True, text=True)


class Program:
    """A program that runs until a signal."""

    def __init__(self, installation: Installation, directory: Path, line: str, ready: str, **extra: str) -> None:
        self.log = directory / f"{line.split()[1]}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [installation.programs / line.split()[0], *line.split()[1:]],
                cwd=directory,
                env=variables(installation, **extra),
                stdout=out,
                stderr=out,
            )
        eventually(f"{line} says that it is ready", lambda: self._is_ready(ready))

    def _is_ready(self, ready: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return ready in self.log.read_text()

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


def test_an_installation_adds_one_package(complete: Installation, application: Path) -> None:
    printed = run(complete, application, "python", "-c", LAYOUT)

    assert {name.partition("-")[0] for name in complete.own} == {"sexton"}
    assert (printed.returncode, printed.stderr) == (0, "")
    assert run(complete, application, "sexton", "--version").stdout.startswith("sexton ")
    help_ = "".join(run(complete, application, "sexton", "--help").stdout.split())
    assert f"docs/NAME.mdarein{complete.packages / 'sexton' / 'docs'}." in help_
    named = {page for file in (complete.packages / "sexton").rglob("*.py") for page in PAGE.findall(file.read_text())}
    assert {page for page in named if not (complete.packages / "sexton" / page).is_file()} == set()
    assert "recycle.retention_seconds" in run(complete, application, "sexton", "settings", "show").stdout


def test_names_in_temporal_are_those_of_the_repository(complete: Installation, application: Path) -> None:
    installed = run(complete, application, "python", "-c", NAMES.format(root="sexton."))
    code = NAMES.format(root="")
    ours = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )

    assert json.loads(installed.stdout) == json.loads(ours.stdout)
    assert min(map(len, json.loads(ours.stdout))) > 5


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t"]
    subprocess.run([*command, "sdist", "-d", str(tmp_path)], cwd=ROOT, check=True, timeout=PATIENCE_SECONDS)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run([*command, "wheel", "-d", str(tmp_path)], cwd=source, check=True, timeout=PATIENCE_SECONDS)

    assert (source / "worker.py").is_file()
    with zipfile.ZipFile(wheel) as files:
        inside = {Path(name).name for name in files.namelist() if "/licenses/" in name}
    assert inside == {"LICENSE", "THIRD-PARTY-NOTICES.md"}
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_an_installed_stack_runs_a_round(complete: Installation, application: Path) -> None:
    def sexton(line: str, code: int = 0) -> str:
        done = run(complete, application, "sexton", *line.split())
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout

    file = application / "files" / "data" / "0.dat"
    file.parent.mkdir(parents=True)
    file.write_text("garbage")
    up = Program(complete, application, "sexton up", "Ctrl-C stops")
    try:
        sexton("instance add trial")
        sexton("vault add trial disk --local files")
        written = (application / ".sexton" / "env").read_text().splitlines()
        environment = dict(line.split("=", 1) for line in written)
        marked = run(complete, application, "python", "-c", MARK, **environment)
        assert marked.returncode == 0, marked.stderr
        sexton("trial advance 4d")
        sexton("enable trial")
        sexton("init")
        ports = {name: f"127.0.0.1:{free_port()}" for name in ("SEXTON_METRICS__LISTEN", "SEXTON_API__LISTEN")}
        worker = Program(complete, application, "sexton worker run", "is polling", **ports)
        api = Program(complete, application, "sexton api", "the API is listening", **ports)
        ran = run(complete, application, "sexton", "round", "run", "trial")
        assert ran.returncode == 0 or "is already running" in ran.stderr  # the schedule was faster
        eventually("the file is deleted", lambda: not file.exists())
        ended = [worker.stop(signal.SIGTERM), api.stop(signal.SIGTERM)]
    finally:
        code = up.stop(signal.SIGINT)

    assert not file.exists()
    assert (ended, code) == ([0, -signal.SIGTERM], 0)  # uvicorn ends by the signal, when it has shut down
    assert "stopped; data stays in" in up.log.read_text()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installation:
    return Installation(tmp_path_factory.mktemp("bare"), wheel, set())


def deployed(temporal: str) -> dict[str, str]:
    """Return the environment of a new deployment."""
    return {
        "SEXTON_DEPLOYMENT": "test-wheel",
        "SEXTON_DATABASE_URL": new_database("test-wheel"),
        "SEXTON_TEMPORAL__ADDRESS": temporal,
        "SEXTON_NODE_TOKEN": "x",
    }


def test_a_missing_extra_is_named(bare: Installation, application: Path) -> None:
    environment = deployed("127.0.0.1:1")

    def printed(line: str) -> str:
        done = run(bare, application, "sexton", *line.split(), **environment)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (line, done.stderr)
        return done.stderr

    assert run(bare, application, "sexton", "init", **environment).returncode == 0
    assert printed("api") == "error: uvicorn is not installed; run: pip install 'sexton[api]'\n"
    assert "pip install 'sexton[embedded]'" in printed("up")
    assert "pip install 'sexton[backend]'" in printed("worker run --role backend --backend-id 7 --data-dir .")
    assert "cannot reach Temporal" in printed("worker run")


def test_a_spark_worker_without_spark_names_the_extra(
    bare: Installation, application: Path, temporal_server: DevServer
) -> None:
    environment = deployed(temporal_server.address)
    run(bare, application, "sexton", "init", **environment)

    ended = run(bare, application, "sexton", "worker", "run", "--role", "spark", **environment)

    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "is not installed; run: pip install 'sexton[spark]'" in ended.stderr
