"""The import table of the architecture, enforced: which room may import what, found by reading the source."""

import ast
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("sexton", "workflows", "activities", "config")
SQL = (
    *(
        "sexton/*/store.py",
        "sexton/guard.py",
        "sexton/contract.py",
        "sexton/refusals.py",
        "sexton/owner/sql.py",
    ),
    *(
        "sexton/owner/race.py",
        "sexton/owner/live_view.py",
        "sexton/check/live.py",
        "sexton/check/repair.py",
        "sexton/check/turns.py",
        "sexton/check/orphans.py",
        "sexton/check/peers.py",
        "sexton/spark/places.py",
        "sexton/db/*.py",
        "sexton/registry/*.py",
    ),
    *(
        f"sexton/marks/{n}.py"
        for n in ("__init__", "batches", "claim", "fence", "fencing", "holders", "quarantine", "protected")
    ),
    *(f"sexton/marks/{n}.py" for n in ("remove", "resolve", "rows", "tally", "known", "versions")),
    *(
        f"sexton/recycle/{n}.py"
        for n in (
            "approvals",
            "counters",
            "measure",
            "plans",
            "reports",
            "status",
            "turns",
            "why",
            "why_catalog",
            "why_kept",
        )
    ),
    *("sexton/holds.py", "sexton/protection/rows.py"),
    *(f"sexton/access/{n}.py" for n in ("calls", "throttle", "users")),
    *(
        f"sexton/binlog/{n}.py"
        for n in ("rows", "config", "records", "consumers", "cutting", "removing", "sending", "turns")
    ),
    *("sexton/binlog/tally.py", "sexton/binlog/explaining.py"),
    *(f"sexton/replica/{n}.py" for n in ("rows", "placing", "reports", "tally")),
    *("sexton/protection/lifetimes.py", "sexton/protection/covering.py", "sexton/protection/under_way.py"),
    *(f"sexton/wal/{n}.py" for n in ("rows", "floors", "maps", "heartbeats", "replays", "resets", "turns", "embedded")),
    *("sexton/metrics/topics.py", "sexton/metrics/binlogs.py"),
    "sexton/catalog/*.py",
)
PURE = (
    *("sexton/*/model.py", "sexton/*/policy.py", "sexton/*/port.py", "sexton/terms.py"),
    *(f"sexton/recycle/{n}.py" for n in ("estimate", "keepers", "ledger", "limits", "shown")),
    *("sexton/catalog/layout.py", "sexton/protection/filter.py", "sexton/storage/identity.py"),
    *("sexton/wal/decided.py", "sexton/wal/runs.py", "sexton/replica/graph.py", "sexton/replica/machine.py"),
    *("sexton/backend/layout.py", "sexton/journal/replaying.py", "sexton/binlog/runs.py"),
    "sexton/access/credentials.py",
)
ENTRANCES = ("sexton/cli/*.py", "sexton/api/*.py", "sexton/embedded/*.py", "sexton/temporal/*.py", "sexton/desk.py")

ONLY_IN: dict[str, Sequence[str]] = {
    "boto3": ("sexton/storage/*.py",),
    "botocore": ("sexton/storage/*.py",),
    "lxml": ("sexton/storage/*.py",),
    "sqlalchemy": SQL,
    "alembic": SQL,
    "psycopg": SQL,
    "pyspark": ("sexton/spark/*.py",),
    "grpc": ("sexton/spark/*.py",),
    "confluent_kafka": ("sexton/client/kafka.py", "sexton/wal/kafka.py"),
    "argon2": ("sexton/access/passwords.py",),
    "httpx": ("sexton/client/*.py", "sexton/wal/nodes.py", "sexton/backend/http.py"),
    "tenacity": ("sexton/client/*.py",),
    "fastapi": ("sexton/api/*.py",),
    "starlette": ("sexton/api/*.py",),
    "uvicorn": ("sexton/api/*.py",),
    "temporalio": ("workflows/*.py", "activities/*.py", "worker.py", *ENTRANCES),
    "typer": ("sexton/cli/*.py",),
    "activities": ("workflows/*.py", "activities/*.py", "worker.py"),
    "workflows": ("workflows/*.py", "worker.py", *ENTRANCES),
    "config": ("config/*.py", "worker.py", *ENTRANCES),
    "prometheus_client": ("sexton/metrics/*.py", "sexton/api/*.py"),
    "pyarrow": ("sexton/audit/*.py", "sexton/spark/*.py", "sexton/check/parquet.py"),
    "worker": (),
    "sexton.cli": ("sexton/cli/*.py", "worker.py"),
    "sexton.api": ("sexton/api/*.py", "sexton/cli/api.py", "sexton/client/*.py"),
    "sexton.embedded": (*ENTRANCES, "sexton/spark/server.py"),
}
"""Package → the rooms that may import it; every other product file may not."""

VALUES = (
    *("sexton.errors", "sexton.message", "sexton.recycle.keepers", "sexton.recycle.ledger", "sexton.catalog.layout"),
    *("sexton.wal.runs", "sexton.binlog.runs", "sexton.replica.graph", "sexton.replica.machine"),
    *(
        "sexton.access.errors",
        "sexton.protection.errors",
        "sexton.protection.filter",
        "sexton.storage.identity",
        "sexton.*.model",
        "sexton.*.policy",
    ),
)
PORTS = (*VALUES, "sexton.*.port")
ROOMS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "pure": (PURE, ("pydantic", *PORTS)),
    "steps": (
        tuple(
            f"sexton/recycle/{name}.py" for name in ("steps", "resolving", "sweep", "sweeps", "concluding", "holding")
        ),
        (
            "sexton.crashpoints",
            *(f"sexton.*.{name}" for name in ("resolving", "sweep", "sweeps", "concluding", "holding")),
            *PORTS,
        ),
    ),
    "activities": (
        ("activities/*.py",),
        (
            *("temporalio.activity", "temporalio.exceptions", "activities.*"),
            *("sexton.*.steps", "sexton.wal.rounds", "sexton.binlog.rounds", "sexton.backend.sweeping", *PORTS),
        ),
    ),
    "workflows": (
        ("workflows/*.py",),
        ("temporalio", "temporalio.*", "activities", "activities.*", "workflows.*", *VALUES),
    ),
    "storage": (
        ("sexton/storage/*.py",),
        ("boto3", "botocore", "botocore.*", "lxml", "pydantic", "sexton.storage.*", *PORTS),
    ),
    "backend": (
        ("sexton/backend/*.py",),
        ("pydantic", "httpx", "sexton.backend.*", "sexton.crashpoints", "sexton.storage.local_files", *PORTS),
    ),
    "db": (("sexton/db/*.py",), ("sqlalchemy", "sqlalchemy.*", "alembic", "alembic.*", "sexton.db.*", "sexton.errors")),
    "entrances, of workflows": (ENTRANCES, ("workflows.ids", "[!w]*", "w[!o]*")),
    "root": (("sexton/errors.py", "sexton/crashpoints.py"), ()),
}
"""Room → its files, and all they may import beside the standard library."""

IMPURE = {"asyncio", "io", "os", "pathlib", "random", "secrets", "shutil", "socket", "sqlite3", "subprocess"}
IMPURE |= {"tempfile", "threading", "time", "urllib.request", "uuid"}
CLOCKS = {"now", "utcnow", "today", "open"}


class Import(NamedTuple):
    """One imported module, as far as it can be told from a name inside it."""

    module: str
    line: int


def files() -> list[str]:
    found = [p for tree in TREES for p in (ROOT / tree).rglob("*.py")]
    return sorted(p.relative_to(ROOT).as_posix() for p in [*found, ROOT / "worker.py"])


@cache
def parsed(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), path)


def imports(tree: ast.Module) -> Iterator[Import]:
    """Yield what a module imports anywhere, in functions too, but for ``if TYPE_CHECKING:``."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (Import(a.name, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            whole = "." * node.level + (node.module or "")
            yield from (Import(_module(whole, a.name), node.lineno) for a in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield Import("(dynamic)", node.lineno)
        waiting += ast.iter_child_nodes(node)


def _module(whole: str, name: str) -> str:
    """Return ``whole.name`` where that is a module: of ours by its file, of temporalio by its name."""
    place = ROOT.joinpath(*whole.split("."), name)
    is_module = place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
    return f"{whole}.{name}" if is_module or (whole == "temporalio" and name.islower()) else whole


def _in(path: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(path, g) for g in globs)


def trespasses(path: str, tree: ast.Module) -> list[str]:
    """Return every import and every look at a clock that the file's rooms do not allow."""
    found = []
    for module, line in imports(tree):
        at = f"{path}:{line} imports {module}"
        if module.startswith((".", "(")):
            found.append(f"{at}: name modules whole")
        for package, rooms in ONLY_IN.items():
            if (module == package or module.startswith(f"{package}.")) and not _in(path, rooms):
                found.append(f"{at}: only {', '.join(rooms) or 'nobody'} may")
        if module.split(".")[0] not in sys.stdlib_module_names:
            for room, (globs, allowed) in ROOMS.items():
                if _in(path, globs) and not _in(module, allowed):
                    found.append(f"{at}: {room} may not")
        elif _in(path, PURE) and (module in IMPURE or module.split(".")[0] in IMPURE):
            found.append(f"{at}: a pure room has no I/O, clock or chance")
    if _in(path, PURE):
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        named = [(ast.unparse(n.func).split(".")[-1], n.lineno) for n in calls]
        found += [f"{path}:{line} calls {name}: a pure room does not" for name, line in named if name in CLOCKS]
    return found


@pytest.mark.parametrize("path", files())
def test_a_file_imports_only_what_its_rooms_allow(path: str) -> None:
    assert trespasses(path, parsed(path)) == []


@pytest.mark.parametrize(
    "glob", sorted({g for rooms in ONLY_IN.values() for g in rooms} | {g for r in ROOMS.values() for g in r[0]})
)
def test_every_room_has_a_file(glob: str) -> None:
    assert [p for p in files() if fnmatchcase(p, glob)]


PLANTED = [
    ("sexton/marks/claim.py", "import boto3"),
    ("sexton/recycle/steps.py", "def f():\n    from botocore.config import Config"),
    ("sexton/cli/why.py", "def f():\n    import sqlalchemy.engine"),
    ("sexton/recycle/steps.py", "from sexton.marks.store import MarkStore"),
    ("sexton/recycle/sweep.py", "from sexton.storage import s3"),
    ("sexton/recycle/status.py", "import pyspark.sql"),
    ("sexton/marks/model.py", "import time"),
    ("sexton/marks/model.py", "import urllib.request"),
    ("sexton/marks/policy.py", "import datetime as dt\nx = dt.datetime.now()"),
    ("sexton/marks/policy.py", "x = open('/etc/passwd')"),
    ("sexton/marks/policy.py", "from sexton.lease.store import LeaseStore"),
    ("sexton/storage/port.py", "from sexton.storage import s3"),
    ("sexton/storage/s3.py", "from sexton.registry.store import Registry"),
    ("sexton/storage/vaults.py", "from . import port"),
    ("sexton/backend/layout.py", "from sexton.backend.meta import SqliteMeta"),
    ("sexton/backend/serving.py", "from sexton.db.engine import Database"),
    ("sexton/backend/sweeping.py", "import temporalio.activity"),
    ("activities/recycle.py", "from temporalio import client"),
    ("activities/recycle.py", "from sexton.recycle import store"),
    ("activities/recycle.py", "from sexton.lease.store import LeaseStore"),
    (
        "workflows/recycle.py",
        "from temporalio import workflow\nwith workflow.x():\n    from sexton.recycle.port import Marks",
    ),
    ("workflows/recycle.py", "import config.settings"),
    ("sexton/cli/plan.py", "from activities.recycle import RecycleActivities"),
    ("sexton/cli/plan.py", "def f():\n    from workflows.recycle import RecycleInstance"),
    ("sexton/embedded/up.py", "import worker"),
    ("sexton/marks/store.py", "import temporalio.client"),
    ("sexton/owner/sql.py", "from config.settings import load"),
    ("sexton/db/engine.py", "from sexton.recycle.model import Plan"),
    ("sexton/errors.py", "import pydantic"),
    ("sexton/guard.py", "if not TYPE_CHECKING_OFF:\n    import httpx"),
    ("sexton/guard.py", "if TYPE_CHECKING:\n    pass\nelse:\n    import confluent_kafka"),
    ("sexton/guard.py", "import importlib\nimportlib.import_module('boto3')"),
]


@pytest.mark.parametrize(("path", "source"), PLANTED)
def test_a_planted_trespass_is_found(path: str, source: str) -> None:
    assert trespasses(path, ast.parse(source))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sexton/storage/s3.py", "import boto3\nfrom botocore.config import Config"),
        ("sexton/guard.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import httpx"),
        ("sexton/marks/policy.py", "import datetime as dt\nfrom sexton.storage.policy import check_key"),
        ("sexton/cli/plan.py", "from workflows import ids"),
        ("worker.py", "import activities, workflows\nfrom sexton.db import schema"),
    ],
)
def test_what_the_table_allows_is_allowed(path: str, source: str) -> None:
    assert trespasses(path, ast.parse(source)) == []


def test_no_package_stands_empty() -> None:
    empty = []
    for init in (i for tree in (*TREES, "tests", "examples") for i in (ROOT / tree).rglob("__init__.py")):
        others = [p for p in init.parent.iterdir() if p.name not in ("__init__.py", "__pycache__")]
        body = ast.parse(init.read_text()).body
        if not others and all(isinstance(n, ast.Expr) for n in body):
            empty.append(init.parent.relative_to(ROOT).as_posix())

    assert empty == []


def test_every_folder_with_code_is_a_package() -> None:
    folders = {p.parent for tree in TREES for p in (ROOT / tree).rglob("*.py")} - {
        ROOT / "sexton/db/migrations/versions"
    }

    assert [f for f in sorted(folders) if not (f / "__init__.py").is_file()] == []


def test_nothing_is_named_for_nothing() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}

    found = [p for tree in (*TREES, "tests", "examples") for p in (ROOT / tree).rglob("*") if p.stem in nameless]

    assert found == []
