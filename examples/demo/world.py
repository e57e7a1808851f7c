"""Create the demo's instance with two vaults, and record which objects must be deleted and which must stay."""

from pathlib import Path

import boto3
from botocore.config import Config

from examples.demo.console import Console
from examples.demo.listing import Key
from examples.minidb import MiniDB, Size, Vault, open_engine
from examples.minidb.schema import LIVE_VIEW
from examples.minidb.vault import THREADS
from sexton.database.engine import Database
from sexton.database.schema import move_clock
from sexton.runtime.embedded.stack import Stack


class World:
    """The instance of one run; a second run over the same home has a new instance and new prefixes."""

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
                # Checksums only where S3 demands them: this client shares the processor with the server.
                request_checksum_calculation="when_required",
                signature_version="s3v4",
            ),
        )
        self.vaults = [Vault(name, f"demo-{name}", f"run-{run}/", self.s3) for name in ("hot", "cold")]
        self.db = MiniDB(open_engine(self.environment["SEXTON_DATABASE_URL"]), self.instance, self.vaults)
        self.loaded: dict[str, Size] = {}
        """Files and bytes written to each table."""
        self.garbage: dict[str, set[Key]] = {}
        """The objects that must be deleted, by reason; from minidb's metadata and from its crashed load."""

    @property
    def all_garbage(self) -> set[Key]:
        """All objects that must be deleted, whatever the reason."""
        return set().union(*self.garbage.values())

    @property
    def markers(self) -> set[Key]:
        """Sexton's own object in each vault."""
        return {(vault.name, "_sexton/vault.json") for vault in self.vaults}

    def register(self, console: Console, *, with_vaults: bool) -> None:
        """Register the instance, and if wanted its vaults, with the real command line; allow rounds to delete."""
        if with_vaults:
            self.db.create_schema()  # with the live view, which the command lets a login read
        console.sexton("instance", "add", self.instance, "--live-view", LIVE_VIEW)
        # Before ``enable``, rounds only report what they would delete.
        commands: list[tuple[str, ...]] = [("enable", self.instance)]
        if with_vaults:
            present = {bucket["Name"] for bucket in self.s3.list_buckets()["Buckets"]}
            for vault in self.vaults:
                if vault.bucket not in present:
                    self.s3.create_bucket(Bucket=vault.bucket)
                place = f"{vault.bucket}/{vault.prefix.rstrip('/')}"
                commands.append(("vault", "add", self.instance, vault.name, "--s3", place))
        console.together(*commands)

    def move_clock(self, seconds: int) -> None:
        """Skip demo time: add an offset to the clock of Sexton's database."""
        database = Database.open(self.environment["SEXTON_DATABASE_URL"])
        move_clock(database, seconds)
        database.close()


def _next_run(home: Path) -> int:
    """Count the runs over a home: names and prefixes are never used twice."""
    counter = home / "demo-runs"
    run = int(counter.read_text()) + 1 if counter.is_file() else 1
    counter.write_text(f"{run}\n")
    return run
