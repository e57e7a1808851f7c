"""Importing workflows, the node agent, the client or the stores of a command loads no adapter and no telemetry."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("boto3", "botocore", "sqlalchemy", "alembic", "psycopg", "pyspark")
OWN = ("sexton.database", "sexton.storage", "sexton.recycle", "sexton.owners", "sexton.runtime", "sexton.interfaces")
SERVER = (*HEAVY, *OWN, "fastapi", "temporalio", "pyarrow", "confluent_kafka")
"""What a program that only calls the API need not load."""


UNTRACED = """
from config.settings import load
from sexton.runtime.temporal.tracing import interceptors
assert interceptors(load()) == []
"""


def _loaded(*steps: tuple[str, tuple[str, ...]]) -> list[str]:
    """Run statements one after another in a new process; return which libraries are loaded after each."""
    lines = ["import sys"]
    for statement, libraries in steps:
        lines += [statement, f"print(*(m for m in {libraries} if m in sys.modules))"]
    run = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.check_output(run, text=True, cwd=Path(__file__).parents[3]).splitlines()


def test_importing_client_agent_or_workflows_loads_no_adapter() -> None:
    steps = (
        ("import sexton.client", SERVER),
        ("import sexton.replication.agent.http, sexton.replication.agent.serving", HEAVY),
        ("import workflows", HEAVY),
        (f"import sexton.runtime.temporal.client{UNTRACED}", ("opentelemetry.sdk", "opentelemetry.exporter")),
        ("import sexton.storage.s3.wire", HEAVY[:2]),
    )

    assert _loaded(*steps) == ["", "", "", "", "boto3 botocore"]  # the last one shows that the check would see it


def test_the_stores_of_every_command_load_no_object_store() -> None:
    libraries = ("boto3", "pyarrow", "pyspark", "temporalio")

    assert _loaded(("import sexton.runtime.deployment, sexton.operators.stores", libraries)) == [""]
