"""The transactions of minidb, the example database, keep their promises over a real S3 server."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from sqlalchemy import select, text

import examples.minidb
from examples.minidb import Corrupt, MiniDB, MiniDBError, Vault, open_engine
from examples.minidb.schema import LIVE_VIEW
from examples.minidb.sync import SyncRun, copy_table
from sexton import contract
from sexton.client import Sexton
from sexton.database import schema
from sexton.database.engine import Database
from sexton.marks.model import Candidate, ClaimRequest, Ref
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.model import Hold
from sexton.operators.holds.store import HoldStore
from sexton.operators.registry.store import Registry
from sexton.operators.stores import operator_stores
from sexton.owners.plugin import OwnerContext
from sexton.owners.sql.owner import SqlOwner
from sexton.protection.model import ProtectionSettings
from sexton.recycle.pipeline.model import Cursor, RangeOrder
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.planning.model import Policy
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.runtime.stores import keepers
from tests.servers.api import Api
from tests.servers.postgres import live_url
from tests.servers.s3 import RunningS3
from tests.support.kept import kept_texts
from tests.support.rig import Rig
from tests.support.transactions import owner_write

INSTANCE = "shop"
POLICY = Policy(version="test", retention_seconds={}, upload_grace_seconds=600)


def _add_instance(database: Database, name: str) -> None:
    """Register an instance whose live objects minidb's view shows."""
    Registry(database).add_instance(name)
    Registry(database).set_live_view(name, LIVE_VIEW)


@pytest.fixture
def sexton(database_url: str) -> Iterator[Database]:
    """Sexton's side of the database, with one enabled instance."""
    database = Database.open(database_url, live_url=live_url(database_url))
    _add_instance(database, INSTANCE)
    Registry(database).enable(INSTANCE)
    yield database
    database.close()


@pytest.fixture
def vault(s3_server: RunningS3, bucket: str) -> Vault:
    return Vault("hot", bucket, "minidb/", s3_server.client())


@pytest.fixture
def minidb(sexton: Database, database_url: str, vault: Vault) -> Iterator[MiniDB]:
    """Minidb with one table ``t`` of 3 rowsets with 4 files each."""
    engine = open_engine(database_url)
    db = MiniDB(engine, INSTANCE, [vault])
    db.create_schema()
    db.create_table("t")
    db.load("t", 3, 4, "hot")
    yield db
    engine.dispose()


def marks(sexton: Database) -> list[tuple[str, str, list[str] | None, int]]:
    """(kind, id, keys, bytes) of every mark."""
    m = sexton.t.mark
    with sexton.read() as c:
        return [(r.kind, r.id, r.keys, r.bytes) for r in c.execute(select(m).order_by(m.c.kind, m.c.id))]


def claim(sexton: Database, kind: str) -> frozenset[Ref]:
    """Claim every mark of a kind, as a round two days later does."""
    schema.move_clock(sexton, 2 * 86_400)
    with sexton.read() as c:
        now = sexton.now(c)
    rounds = RoundStore(sexton, LeaseStore(sexton), operator_stores(sexton), interval_seconds=3_600)
    opened = rounds.open(INSTANCE, "run", None, POLICY)
    common = {"cutoff": now, "limit": 100, "upload_grace_seconds": 600}
    batches = BatchStore(sexton)
    claims = ClaimStore(sexton, ControlStore(sexton), keepers(sexton, ProtectionSettings()))
    order = RangeOrder(round=opened.round, number=0, lease=opened.lease, kind=kind, **common)
    token, *_ = batches.open(order, 1)
    due = DueMarkStore(sexton).select_due(INSTANCE, kind, now, Cursor(), 100)
    return claims.claim(ClaimRequest(token, [Candidate(m.ref) for m in due], now)).claimed


def in_bucket(vault: Vault) -> dict[str, int]:
    """Key and size of each object of the vault."""
    pages = vault.client.get_paginator("list_objects_v2").paginate(Bucket=vault.bucket, Prefix=vault.prefix)
    return {o["Key"].removeprefix(vault.prefix): o["Size"] for page in pages for o in page.get("Contents", ())}


def test_marks_name_exactly_what_becomes_garbage(minidb: MiniDB, sexton: Database, vault: Vault) -> None:
    before, inputs = minidb.read_table("t"), minidb.keys("t")
    assert before == (12, sum(in_bucket(vault).values()))
    assert marks(sexton) == []  # of a committed load

    garbage, listed = minidb.compact("t", 3), in_bucket(vault)
    after = minidb.read_table("t")
    assert (garbage, after.bytes) == (before, before.bytes)
    assert {kind for kind, *_ in marks(sexton)} == {"compacted"}
    assert {("hot", key) for _, _, keys, _ in marks(sexton) for key in keys or ()} == inputs
    assert [size for *_, size in marks(sexton)] == [
        sum(listed[k] for k in keys or ()) for _, _, keys, _ in marks(sexton)
    ]

    orphans = minidb.abandon_load("t", 2, 3, "hot", seed="lost")
    assert minidb.read_table("t") == after
    with sexton.read() as c:
        prefixes = c.execute(select(sexton.t.mark.c.prefix).where(sexton.t.mark.c.kind == "prepared")).scalars().all()
    assert sorted(key for key in in_bucket(vault) if key.startswith(tuple(prefixes))) == sorted(orphans)

    keys, earlier = minidb.keys("t"), marks(sexton)
    minidb.drop_table("t")
    dropped = [mark for mark in marks(sexton) if mark[0] == "dropped"]
    with pytest.raises(MiniDBError):
        minidb.read_table("t")
    minidb.undrop_table("t")
    assert {("hot", key) for _, _, named, _ in dropped for key in named or ()} == keys
    assert sum(size for *_, size in dropped) == after.bytes
    assert (minidb.read_table("t"), marks(sexton)) == (after, earlier)


def test_a_dropped_table_returns_until_it_is_claimed(minidb: MiniDB, sexton: Database) -> None:
    before, holds = minidb.read_table("t"), HoldStore(sexton)
    minidb.drop_table("t")
    table = {"mark_kind": "table", "mark_id": minidb.table_id("t")}
    hold, _ = holds.place(Hold(instance=INSTANCE, scope="mark", reason="audit", **table), 7 * 86_400)
    assert claim(sexton, "dropped") == frozenset()
    minidb.undrop_table("t")
    assert minidb.read_table("t") == before

    holds.release(hold.id)
    minidb.drop_table("t")
    assert len(claim(sexton, "dropped")) == 3
    with pytest.raises(contract.Refused):
        minidb.undrop_table("t")
    with pytest.raises(MiniDBError):
        minidb.read_table("t")


def test_a_load_without_its_mark_or_table_rolls_back(minidb: MiniDB, sexton: Database) -> None:
    before = minidb.read_table("t")
    slow = minidb.stage("t", 2, 3, "hot", seed="slow")
    assert claim(sexton, "prepared") == {Ref("prepared", w.id) for w in slow}
    with pytest.raises(contract.Collected):
        minidb.publish("t", slow)
    assert minidb.read_table("t") == before
    assert len(marks(sexton)) == 2

    late = minidb.stage("t", 1, 3, "hot", seed="late")
    minidb.drop_table("t")
    with pytest.raises(MiniDBError):
        minidb.publish("t", late)
    prepared = {id_ for kind, id_, *_ in marks(sexton) if kind == "prepared"}
    assert prepared == {w.id for w in (*slow, *late)}


def test_live_view_answers_for_a_mistaken_mark(minidb: MiniDB, sexton: Database) -> None:
    key = sorted(key for _, key in minidb.keys("t"))[0]
    wrong = [contract.NewMark(id="by-key", vault="hot", keys=(key,))]
    wrong += [contract.NewMark(id="by-prefix", vault="hot", prefix="data/")]
    wrong += [contract.NewMark(id="other-vault", vault="cold", keys=(key,))]
    with minidb.engine.begin() as c:
        contract.mark(c, INSTANCE, "dropped", wrong)
    schema.move_clock(sexton, 600)
    with sexton.read() as c:
        due = DueMarkStore(sexton).select_due(INSTANCE, "dropped", sexton.now(c), Cursor(), 10)

    live = SqlOwner(OwnerContext(sexton, Registry(sexton))).live(INSTANCE, due, lambda: None)

    assert live.keys() == {Ref("dropped", "by-key"), Ref("dropped", "by-prefix")}


def test_reading_finds_a_changed_and_a_missing_file(minidb: MiniDB, vault: Vault) -> None:
    key = min(in_bucket(vault))
    vault.write([(key, b"something else")])
    with pytest.raises(Corrupt, match=key):
        minidb.read_table("t")
    vault.client.delete_object(Bucket=vault.bucket, Key=vault.prefix + key)

    with pytest.raises(ClientError, match="NoSuchKey"):
        minidb.read_table("t")


def test_two_instances_share_one_database(minidb: MiniDB, sexton: Database, vault: Vault) -> None:
    _add_instance(sexton, "other")
    other = MiniDB(minidb.engine, "other", [Vault("hot", vault.bucket, "other/", vault.client)])
    other.create_schema()
    other.create_table("t")
    other.load("t", 1, 2, "hot")
    minidb.drop_table("t")

    assert other.read_table("t").files == 2
    with owner_write(sexton) as c:
        assert c.execute(text("SELECT DISTINCT instance FROM sexton_live")).scalars().all() == ["other"]


def test_minidb_imports_only_the_public_modules() -> None:
    imported = set()
    for source in Path(examples.minidb.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ImportFrom):
                imported |= {
                    f"{node.module}.{a.name}" if node.module == "sexton" else str(node.module) for a in node.names
                }
            elif isinstance(node, ast.Import):
                imported |= {a.name for a in node.names}

    rooms = {name for name in imported if name.split(".")[0] in ("sexton", "config", "workflows", "activities")}
    assert rooms == {"sexton.client", "sexton.contract"}


@pytest.mark.slow
def test_a_sync_job_copies_a_dropped_table_while_rounds_run(
    minidb: MiniDB, sexton: Database, database_url: str, vault: Vault, s3_server: RunningS3
) -> None:
    rig = Rig(database_url, endpoint_url=s3_server.endpoint_url, deployment="test-minidb")
    rig.s3(vault.bucket, "hot", INSTANCE, prefix=vault.prefix)
    mirror = Vault("mirror", s3_server.create_bucket(), "", vault.client)
    minidb.drop_table("t")
    rig.later(2 * 86_400)
    rig.protections.watermark(INSTANCE, 1000)
    was, during = dict(minidb.checksums("t")), []

    def in_between(copied: int) -> None:
        if copied in (0, 6):
            during.append(kept_texts(rig.round(INSTANCE)))

    with (
        Api(rig, s3={"endpoint_url": s3_server.endpoint_url}) as api,
        Sexton(api.url, api.token(f"sync:copy@{INSTANCE}")) as client,
    ):
        copied = copy_table(client, minidb, "t", mirror, SyncRun("1", 1000), in_between)
    rig.round(INSTANCE)
    kept = in_bucket(vault)
    rig.protections.watermark(INSTANCE, 1001)
    rig.round(INSTANCE)

    assert copied == len(was) == 12
    assert during == [{"protection copy:1": 3}] * 2
    assert set(in_bucket(mirror)) == {f"hot/{key}" for _, key in was}
    assert len(kept) == 13  # and the vault's marker
    assert set(in_bucket(vault)) == {"_sexton/vault.json"}
