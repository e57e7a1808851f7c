"""Importing workflows, the node agent, the client or the stores of a command loads no adapter."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("boto3", "botocore", "sqlalchemy", "alembic", "psycopg", "pyspark")
OWN = ("sexton.database", "sexton.storage", "sexton.recycle", "sexton.owners", "sexton.runtime", "sexton.interfaces")
SERVER = (*HEAVY, *OWN, "fastapi", "temporalio", "lxml", "pyarrow", "confluent_kafka")
"""What a program that only calls the API need not load."""


def _loaded(*imports: tuple[str, tuple[str, ...]]) -> list[str]:
    """Import one after another in a new process; return which libraries are loaded after each."""
    lines = ["import sys"]
    for modules, libraries in imports:
        lines += [f"import {modules}", f"print(*(m for m in {libraries} if m in sys.modules))"]
    run = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.check_output(run, text=True, cwd=Path(__file__).parents[3]).splitlines()


def test_importing_client_agent_or_workflows_loads_no_adapter() -> None:
    agent = "sexton.replication.agent.serving, sexton.replication.agent.http"
    imports = (("sexton.client", SERVER), (agent, HEAVY), ("workflows", HEAVY), ("sexton.storage.s3.wire", HEAVY))

    assert _loaded(*imports) == ["", "", "", "boto3 botocore"]  # the last one shows that the check would see it


def test_the_stores_of_every_command_load_no_object_store() -> None:
    libraries = ("boto3", "lxml", "pyarrow", "pyspark", "temporalio")

    assert _loaded(("sexton.deployment, sexton.operators.stores", libraries)) == [""]
