"""Damage the instance behind the database's back, and show that one check finds exactly this damage."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from examples.demo.console import Console
from examples.demo.ending import Sight
from examples.demo.listing import Key, Objects, listing
from examples.demo.world import World
from sexton.runtime.embedded.stack import SPARK_WORKER, Stack

LOW_THRESHOLD = {"SEXTON_CONFIG": str(Path(__file__).with_name("spark.toml"))}
"""For workers: by default, Spark compares and deletes only 250,000 objects or more; the demo has thousands."""
KEY_PATTERN = r"data/.+\.dat"
"""The keys of minidb: a check reports an unknown object as an orphan only if its key is one of these."""
LIVE_TABLES = ("events", "users", "orders", "sessions")
DAMAGED_TABLE = "users"
ORPHAN_VAULT = "cold"
ORPHAN_NAME = "orphan_0000.dat"
ORPHAN_CONTENT = b"no record names this"


class Damage(NamedTuple):
    """What was done behind the database's back."""

    lost: Key
    content: bytes
    """Of the lost object."""
    orphan: Key

    @property
    def findings(self) -> set[tuple[str, str, str]]:
        """The findings that a check must report: type, vault, key."""
        return {("LOST", *self.lost), ("ORPHAN", *self.orphan)}


def find_damage(console: Console, stack: Stack, world: World, undamaged: Objects) -> Sight:
    """Write an orphan, delete a live object, check once, and undo both; return a row of the table at the end.

    Args:
        console: where it is shown.
        stack: whose workers check.
        world: the instance; all its other numbers have been compared.
        undamaged: the listing before the damage, and again at the end.
    """
    console.act("Fear: records and objects no longer agree")
    damage = _damage(world)
    damaged = listing(world.vaults)
    console.say("Behind the database's back, one live object is deleted, and one is written.")
    console.sexton("instance", "keys", world.instance, KEY_PATTERN)
    stack.await_worker(SPARK_WORKER)
    console.say("A check lists all objects and compares them with the records, on Spark.")
    run = console.sexton_json("check", "run", world.instance, codes=(4,))["run"]  # a loss is confirmed
    _compare_evidence(console, world, damaged, run["evidence"])
    with console.started("check", "findings", world.instance, "--json") as command:
        _undo(world, damage)
        console.same("the vaults after the repair, key by key", undamaged, listing(world.vaults))
        _compare_findings(console, damage, json.loads(console.output(command))["items"])
    size = world.db.read_table(DAMAGED_TABLE)
    console.same(f"{DAMAGED_TABLE} after the repair", world.loaded[DAMAGED_TABLE], size)
    console.say("Both are undone: the listing and all checksums are as before.")
    return Sight("check", f"sexton check show {run['check']}", "spark.md")


def _damage(world: World) -> Damage:
    """Delete one object of a live table, and write one that no record names, by plain S3 requests."""
    vault, key = min(world.db.keys(DAMAGED_TABLE))
    [content] = world.db.vault(vault).read([key])
    _delete(world, (vault, key))
    orphan = (ORPHAN_VAULT, str(PurePosixPath(key).with_name(ORPHAN_NAME)))
    _write(world, orphan, ORPHAN_CONTENT)
    return Damage((vault, key), content, orphan)


def _undo(world: World, damage: Damage) -> None:
    """Write the lost object again, and delete the orphan."""
    _write(world, damage.lost, damage.content)
    _delete(world, damage.orphan)


def _write(world: World, key: Key, content: bytes) -> None:
    world.db.vault(key[0]).write([(key[1], content)])


def _delete(world: World, key: Key) -> None:
    vault = world.db.vault(key[0])
    vault.client.delete_object(Bucket=vault.bucket, Key=vault.prefix + key[1])


def _compare_evidence(console: Console, world: World, damaged: Objects, evidence: Mapping[str, Any]) -> None:
    """Compare what the check listed and read with a listing and minidb's metadata; show where it was compared."""
    objects = sum(vault["objects"] + vault["young"] for vault in evidence["listings"])
    live = set().union(*(world.db.keys(name) for name in LIVE_TABLES))
    console.same("objects that the check listed", len(damaged) - len(world.markers), objects)
    console.same("live files that the check read", len(live), evidence["live"])
    console.same("findings of the check", {"LOST": 1, "ORPHAN": 1}, evidence["found"])
    console.same("where the check compared", ["compared on Spark"], evidence["notes"])
    console.say(f"| {objects:,} objects, {evidence['live']:,} live files: compared on Spark")


def _compare_findings(console: Console, damage: Damage, findings: list[dict[str, Any]]) -> None:
    """Show all open findings of the instance, and compare them with the damage."""
    for finding in findings:
        console.say(f"| {finding['type']} {finding['vault']}/{finding['key']}")
    console.same("open findings", damage.findings, {(f["type"], f["vault"], f["key"]) for f in findings})
    console.say("Seen: exactly these two are found, the lost object and the orphan.")
