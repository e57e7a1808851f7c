"""Workflow code is replayed in a sandbox and imported by every client: it must not drag the adapters in."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("boto3", "botocore", "sqlalchemy", "alembic", "psycopg", "pyspark")
SERVER = (*HEAVY, "fastapi", "temporalio", "lxml", "pyarrow", "argon2", "confluent_kafka")
"""Libraries that a program which only calls the API need not install."""


def _loaded(statement: str, libraries: tuple[str, ...] = HEAVY) -> str:
    code = f"import sys; {statement}; print(*(m for m in {libraries} if m in sys.modules))"
    return subprocess.check_output([sys.executable, "-c", code], text=True, cwd=Path(__file__).parents[3]).strip()


def test_importing_workflows_loads_no_database_no_object_store_and_no_spark() -> None:
    assert _loaded("import workflows") == ""


def test_what_runs_beside_a_storage_node_loads_none_of_them_either() -> None:
    assert _loaded("import sexton.replication.agent.serving, sexton.replication.agent.http") == ""


def test_importing_the_client_loads_nothing_of_a_server() -> None:
    assert _loaded("import sexton.client", SERVER) == ""


def test_the_stores_that_every_command_opens_load_no_object_store() -> None:
    libraries = ("boto3", "lxml", "pyarrow", "pyspark", "temporalio")

    assert _loaded("import sexton.interfaces.operator_service, sexton.operators.stores", libraries) == ""


def test_the_check_would_see_a_heavy_import() -> None:
    assert _loaded("import sexton.storage.s3.wire").split() == ["boto3", "botocore"]
