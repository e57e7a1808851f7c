"""Tell the story of a lake whose metadata Sexton keeps: its meta service is a client, its operator drops a table."""

from typing import Any

from examples.demo.console import Console
from examples.demo.ending import Sight
from examples.demo.listing import Key, listing
from examples.demo.world import World
from examples.minidb import Vault
from examples.minidb.vault import rows
from sexton.client import Sexton

TABLES = {"orders": 4, "events": 2}
"""Tablets of each table."""
SEGMENTS = 10
FOUR_DAYS = 4 * 86_400
PAST_UPLOAD_GRACE = 3_660


def drop_a_table(console: Console, world: World) -> list[Sight]:
    """Show the part, over a running API; return rows of the table at the end."""
    console.act("A lake without a catalog of its own: Sexton keeps its metadata")
    instance = f"{world.instance}-lake"
    console.sexton("instance", "add", instance, "--owner", "catalog")
    [token] = console.tokens(f"owner@{instance}")
    with Sexton(f"http://{world.environment['SEXTON_API__LISTEN']}", token) as meta_service:
        story = LakeStory(console, world, instance, meta_service)
        story.load()
    story.drop()
    return [Sight("lake's tables", f"sexton catalog {instance} show", "catalog.md")]


class LakeStory:
    """One lake, an instance of its own, in one vault."""

    def __init__(self, console: Console, world: World, instance: str, meta_service: Sexton) -> None:
        self._console, self._world, self._instance, self._meta_service = console, world, instance, meta_service
        self._vault = Vault("lake", "demo-lake", f"{instance}/", world.s3)
        self._files: dict[str, set[Key]] = {}
        """The keys that were written, by table."""

    def load(self) -> None:
        """Create the tables, and load files into each."""
        if self._vault.bucket not in {bucket["Name"] for bucket in self._world.s3.list_buckets()["Buckets"]}:
            self._world.s3.create_bucket(Bucket=self._vault.bucket)
        place = f"{self._vault.bucket}/{self._vault.prefix.rstrip('/')}"
        self._console.sexton("vault", "add", self._instance, "lake", "--s3", place)
        self._console.sexton("enable", self._instance)
        for table, tablets in TABLES.items():
            self._catalog("create-table", id=table, indexes={f"{table}-base": {}}, partitions={f"{table}-p": tablets})
            ids = self._meta_service.query(self._instance, "catalog", "tablets", table=table)
            load = self._catalog("begin", label=f"load-{table}", timeout_seconds=600)
            outputs = self._catalog("prepare-rowsets", txn=load, tablets=ids, vault="lake")
            self._write(table, [f"{output['prefix']}{n}.dat" for output in outputs for n in range(SEGMENTS)])
            written = [
                {
                    "rowset": output["rowset"],
                    "segments": SEGMENTS,
                    "bytes": sum(len(rows(f"{output['prefix']}{n}.dat")) for n in range(SEGMENTS)),
                }
                for output in outputs
            ]
            self._catalog("write-rowset", written=written)
            self._catalog("commit", txn=load)
        written_keys = set().union(*self._files.values())
        self._console.same("files after both loads", written_keys, self._listed())
        self._console.say(f"Its meta service has loaded {len(written_keys)} files into tables orders and events.")

    def drop(self) -> None:
        """Drop a table; a round deletes its files, and those of no other."""
        self._console.act("Fear: a drop takes another table's files along")
        self._console.sexton("catalog", self._instance, "drop-table", "table=orders")
        self._console.say("4 days of demo time pass.")
        self._world.move_clock(FOUR_DAYS)
        self._console.sexton_json("round", "run", self._instance)
        self._world.move_clock(PAST_UPLOAD_GRACE)
        self._console.sexton_json("round", "run", self._instance)
        self._console.same("files after the drop", self._files["events"], self._listed())
        self._console.show(self._console.sexton("catalog", self._instance, "show"))
        self._console.say("Seen: table orders is gone; table events is whole.")

    def _catalog(self, operation: str, **values: object) -> Any:
        return self._meta_service.operate(self._instance, "catalog", operation, **values)

    def _write(self, owner: str, keys: list[str]) -> None:
        self._vault.write((key, rows(key)) for key in keys)
        self._files[owner] = {("lake", key) for key in keys}

    def _listed(self) -> set[Key]:
        return {key for key in listing([self._vault]) if not key[1].startswith("_sexton/")}
