"""Keep what a machine has set and what runs on it out of the tests; in CI, prove it with the worst."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from config.sections import TemporalSection
from config.settings import Settings

FOREIGN = ("AWS_", "PG", "KAFKA_", "TEMPORAL_", "SPARK_", "PYSPARK_", "SEXTON_", "JAVA_TOOL_OPTIONS", "OTEL_")
"""How the names of variables begin that change what clients and servers do."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
NOWHERE = "127.0.0.1:1"
"""An address where no program of an ordinary user listens."""
PORTS = (7233, 5432, 8333, 9464, 9092, 8080)
"""Where Temporal, PostgreSQL, S3, metrics, Kafka and Spark listen by default."""
POISON = {
    "AWS_PROFILE": "no-such-profile",
    "AWS_ENDPOINT_URL": f"http://{NOWHERE}",
    "AWS_ACCESS_KEY_ID": "somebody-elses",
    "HTTP_PROXY": f"http://{NOWHERE}",
    "HTTPS_PROXY": f"http://{NOWHERE}",
    "http_proxy": f"http://{NOWHERE}",
    "https_proxy": f"http://{NOWHERE}",
    "PGSSLMODE": "verify-full",
    "PGPORT": "1",
    "PGUSER": "nobody",
    "TEMPORAL_ADDRESS": NOWHERE,
    "TEMPORAL_NAMESPACE": "somebody-elses",
    "SPARK_HOME": "/nonexistent",
    "SPARK_CONF_DIR": "/nonexistent",
    "SPARK_REMOTE": f"sc://{NOWHERE}",
    "JAVA_HOME": "/nonexistent",
    "JAVA_TOOL_OPTIONS": "-Dno.such.option",
    "SEXTON_DATABASE_URL": f"postgresql://nobody@{NOWHERE}/none",
    "SEXTON_TEMPORAL__ADDRESS": "127.0.0.1:7233",
}


def clean() -> None:
    """Remove foreign settings from the environment of this process and of its children.

    Where nothing names a Temporal server, none is found: a test must never reach one that is not its own.
    """
    for name in [*os.environ]:
        if name.startswith(FOREIGN) or name.upper() in PROXIES:
            del os.environ[name]
    os.environ |= {
        "NO_PROXY": "*",
        "no_proxy": "*",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "PGPASSFILE": "/nonexistent",
        "SEXTON_HOME": "/nonexistent",  # tests are collected where a demo may have left its home
        "SEXTON_TEMPORAL__ADDRESS": NOWHERE,
    }
    Settings.model_fields["temporal"].default = TemporalSection(address=NOWHERE)
    Settings.model_rebuild(force=True)


def variables(home: Path) -> dict[str, str]:
    """Return the environment of a program whose settings are those of a home of ``sexton up``."""
    return {k: v for k, v in os.environ.items() if not k.startswith("SEXTON_")} | {"SEXTON_HOME": str(home)}


@contextmanager
def poisoned() -> Iterator[dict[str, str]]:
    """Listen on the usual ports, as other software does, and yield an environment in which everything is set wrong."""
    with ExitStack() as listening:
        for port in PORTS:
            listener = listening.enter_context(socket.socket())
            with suppress(OSError):  # other software is there already
                listener.bind(("127.0.0.1", port))
                listener.listen()
        yield os.environ | POISON
