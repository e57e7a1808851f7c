"""Importing workflows, the node agent or the client loads no adapter."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("boto3", "botocore", "sqlalchemy", "alembic", "psycopg", "pyspark")
OWN = ("sexton.database", "sexton.storage", "sexton.recycle", "sexton.owners", "sexton.runtime", "sexton.interfaces")
SERVER = (*HEAVY, *OWN, "fastapi", "temporalio", "lxml", "pyarrow", "confluent_kafka")
"""What a program that only calls the API need not load."""


def _loaded(statement: str, libraries: tuple[str, ...] = HEAVY) -> str:
    code = f"import sys; {statement}; print(*(m for m in {libraries} if m in sys.modules))"
    return subprocess.check_output([sys.executable, "-c", code], text=True, cwd=Path(__file__).parents[3]).strip()


def test_importing_workflows_loads_no_adapter() -> None:
    assert _loaded("import workflows") == ""


def test_importing_the_node_agent_loads_no_adapter() -> None:
    assert _loaded("import sexton.replication.agent.serving, sexton.replication.agent.http") == ""


def test_importing_the_client_loads_no_server_code() -> None:
    assert _loaded("import sexton.client", SERVER) == ""


def test_the_stores_of_every_command_load_no_object_store() -> None:
    libraries = ("boto3", "lxml", "pyarrow", "pyspark", "temporalio")

    assert _loaded("import sexton.deployment, sexton.operators.stores", libraries) == ""


def test_the_check_would_see_a_heavy_import() -> None:
    assert _loaded("import sexton.storage.s3.wire").split() == ["boto3", "botocore"]
