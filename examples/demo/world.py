"""What the story is about: one instance of minidb with two vaults, and what must go and may stay of it."""

from pathlib import Path

import boto3
from botocore.config import Config

from examples.demo.listing import Key
from examples.minidb import MiniDB, Size, Vault, open_engine
from examples.minidb.vault import THREADS
from sexton.database.engine import Database
from sexton.database.schema import move_clock
from sexton.runtime.embedded.stack import Stack


class World:
    """That of one telling; a second one over the same home has a new instance and new prefixes."""

    def __init__(self, stack: Stack) -> None:
        self.environment = stack.environment()
        run = _next_run(stack.home)
        self.instance = f"demo-{run}"
        self.s3 = boto3.client(
            "s3",
            endpoint_url=self.environment["SEXTON_S3__ENDPOINT_URL"],
            region_name=self.environment["AWS_DEFAULT_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(
                max_pool_connections=THREADS,
                # Checksums only where S3 demands them: this client shares two cores with the server.
                request_checksum_calculation="when_required",
                signature_version="s3v4",
            ),
        )
        self.vaults = [Vault(name, f"demo-{name}", f"run-{run}/", self.s3) for name in ("hot", "cold")]
        self.db = MiniDB(open_engine(self.environment["SEXTON_DATABASE_URL"]), self.instance, self.vaults)
        self.mirror = Vault("mirror", f"mirror-{run}", "", self.s3)
        """Another place, of which Sexton knows nothing."""
        self.loaded: dict[str, Size] = {}
        """What was written to each table."""
        self.garbage: dict[str, set[Key]] = {}
        """What must go, by reason; filled from minidb's metadata and from its crashed load."""

    @property
    def must_go(self) -> set[Key]:
        """All garbage, whatever the reason."""
        return set().union(*self.garbage.values())

    @property
    def markers(self) -> set[Key]:
        """Sexton's own object in each vault."""
        return {(vault.name, "_sexton/vault.json") for vault in self.vaults}

    def move_clock(self, seconds: int) -> None:
        """Let time pass, for Sexton's database only."""
        database = Database.open(self.environment["SEXTON_DATABASE_URL"])
        move_clock(database, seconds)
        database.close()


def _next_run(home: Path) -> int:
    """Count the runs over a home: names and prefixes are never used twice."""
    counter = home / "demo-runs"
    run = int(counter.read_text()) + 1 if counter.is_file() else 1
    counter.write_text(f"{run}\n")
    return run
