"""Every command refuses wrong input in one sentence with an exit code of its own, and changes nothing."""

import re
import shlex

import pytest

from sexton.contract import NewMark
from sexton.database.engine import Database
from sexton.database.tables import METADATA
from sexton.replication.binlog.model import LogRetention
from sexton.replication.replicas.model import Copy, Placement, Tablet
from tests.e2e.conftest import Run
from tests.support.rig import Rig
from tests.support.topics import make_topic

REFUSED = 1
WRONG_USAGE = 64
RETENTION = "recycle.dropped_partition_retention_seconds"
WHY = "--for 7d --reason x"
REFUSALS = [
    # instances, vaults, plans
    ("plan nobody", REFUSED, "unknown instance nobody"),
    ("plan list nobody", REFUSED, "unknown instance nobody"),
    ("plan show 4711", REFUSED, "there is no plan 4711; see: sexton plan list"),
    ("plan --list", WRONG_USAGE, "sexton plan list"),
    ("plan shop --list", WRONG_USAGE, "sexton plan list"),
    ("plan apply 1", WRONG_USAGE, "sexton apply PLAN"),
    ("apply 99 --yes", REFUSED, "there is no plan 99"),
    ("instance add Shop!", WRONG_USAGE, "instance 'Shop!' was refused"),
    ("instance observe nobody", REFUSED, "unknown instance nobody"),
    ("vault add shop x --local /no/such/place", REFUSED, "NO_BUCKET"),
    ("vault add shop x --local v", REFUSED, "overlaps vault disk"),
    ("vault add shop b --s3 data/", WRONG_USAGE, "is a variable empty?"),
    ("vault add shop r --local /", WRONG_USAGE, "is a variable empty?"),
    ("vault cap shop disk 0", WRONG_USAGE, "RATE"),
    ("vault cap shop disk 500/s", WRONG_USAGE, "RATE"),
    ("vault cap shop nowhere 500", REFUSED, "has no vault nowhere"),
    ("vault uncap shop nowhere", REFUSED, "has no vault nowhere"),
    ("contract test --dsn mysql://x/y", WRONG_USAGE, "Sexton needs PostgreSQL"),
    ("trial advance -4d", WRONG_USAGE, "no value may be negative"),
    ("trial advance '4 days'", WRONG_USAGE, "is not a duration"),
    ("token create --scope read --days 367", WRONG_USAGE, "less than or equal to 366"),
    # stops, lists, holds
    ("stop --reason x", WRONG_USAGE, "exactly one"),
    ("stop shop --all --reason x", WRONG_USAGE, "exactly one"),
    ("stop shop --reason ' '", WRONG_USAGE, "--reason is empty"),
    ("start nobody", REFUSED, "unknown instance nobody"),
    ("lists show greylist", WRONG_USAGE, "greylist"),
    ("lists add nolist x", WRONG_USAGE, "'LIST': 'nolist' is not one of 'blacklist'"),
    ("lists add blacklist nobody", REFUSED, "unknown instance nobody"),
    ("lists add vaults shop/none", REFUSED, "there is no vault shop/none"),
    ("lists add windows 'at night'", WRONG_USAGE, "is no window"),
    ("lists remove windows 'daily 01:00-02:00'", REFUSED, "there is no window"),
    ("hold add shop --for soon --reason x", WRONG_USAGE, "'soon' is not a duration"),
    ("hold add shop --for 0d --reason x", WRONG_USAGE, "a hold lasts"),
    (f"hold add --mark t1 {WHY}", WRONG_USAGE, "write KIND/ID"),
    (f"hold add --prefix disk {WHY}", WRONG_USAGE, "write VAULT/PREFIX"),
    (f"hold add --prefix none/x {WHY}", REFUSED, "has no vault none"),
    (f"hold add shop --table 1 --prefix disk/x {WHY}", WRONG_USAGE, "hold one thing"),
    (f"hold add shop --table 1 --mark dropped/t1 {WHY}", WRONG_USAGE, "hold one thing"),
    ("hold release 99", REFUSED, "there is no hold 99"),
    ("hold release first", WRONG_USAGE, "'HOLD'"),
    ("hold table 12", WRONG_USAGE, "sexton hold add INSTANCE --table"),
    # settings
    (f"settings set {RETENTION} 600", WRONG_USAGE, "is below its floor of 3600"),
    ("settings set kinds.snapshot.retention_seconds 5", WRONG_USAGE, "is below its floor of 600"),
    ("settings set recycle.max_delete_fraction nan", WRONG_USAGE, "finite number"),
    ("settings set deployment other", WRONG_USAGE, "cannot be changed while workers run"),
    ("settings set recycle.retention_second 6000", WRONG_USAGE, "did you mean recycle.retention_seconds?"),
    ("settings unset recycle.retention_second", WRONG_USAGE, "did you mean recycle.retention_seconds?"),
    ("settings set wal.purge_trigger_bytes 6000 --instance shop", WRONG_USAGE, "is the same for all instances"),
    (f"settings set {RETENTION} 86400 --instance nobody", REFUSED, "unknown instance nobody"),
    (f"settings preview {RETENTION} 5", WRONG_USAGE, "_seconds = 5 (as given) is below its floor"),
    ("settings preview retention_seconds 5000", WRONG_USAGE, "is not a setting"),
    # questions
    ("why ''", WRONG_USAGE, "KEY|ID is empty"),
    ("why ' '", WRONG_USAGE, "the name is empty; write an object's key, its URL, or a mark's id"),
    ("why s3://other/x", REFUSED, "no vault contains s3://other/x; see: sexton vault list"),
    ("why s3://other/x --instance shop", REFUSED, "no vault of shop contains s3://other/x"),
    ("why no/such/key", REFUSED, "nothing is known of no/such/key"),
    ("why x --last 9d", WRONG_USAGE, "--last goes with --deep"),
    ("why x --deep --last soon", WRONG_USAGE, "'soon' is not a duration"),
    ("why a\udcffb", WRONG_USAGE, "has bytes that are no text here"),
    ("why 'a\0b'", WRONG_USAGE, "'a\\x00b' is not text"),
    ("plan \udcff", WRONG_USAGE, "use a UTF-8 locale"),
    ("deletions 99", REFUSED, "there is no round 99"),
    ("deletions 1 --outcome lost", WRONG_USAGE, "'lost' is no outcome"),
    ("log --follow", WRONG_USAGE, "--json"),
    ("log --since 3", WRONG_USAGE, "--json"),
    ("round show 99", REFUSED, "there is no round 99"),
    ("round list --last 0", WRONG_USAGE, "--last"),
    ("marks list shop --state GONE", WRONG_USAGE, "'GONE' is not one of 'WAITING'"),
    ("marks list --parent t1", WRONG_USAGE, "write KIND/ID"),
    ("marks list --after x", WRONG_USAGE, "is no place in this list"),
    ("quarantine list --reason BAD_LUCK", WRONG_USAGE, "'BAD_LUCK' is not one of"),
    ("quarantine retry shop", WRONG_USAGE, "exactly one"),
    ("quarantine retry shop dropped/aside --all", WRONG_USAGE, "exactly one"),
    ("quarantine retry shop dropped/t1", REFUSED, "is not quarantined"),
    ("quarantine discard shop aside --reason x --yes", WRONG_USAGE, "write KIND/ID"),
    ("quarantine discard shop dropped/t1 --reason x --yes", REFUSED, "is not quarantined"),
    # topics
    ("wal explain none", REFUSED, "unknown topic none; see: sexton wal list"),
    ("wal enable orders-wall", REFUSED, "there is no such topic"),
    ("wal assign none shop --reason x --yes", REFUSED, "unknown topic none"),
    ("wal reset none --reason x --yes", REFUSED, "unknown topic none"),
    ("wal reset orders --reason x --to 5", WRONG_USAGE, "--region"),
    ("wal reset orders --reason x --epoch 5", WRONG_USAGE, "--region"),
    (f"wal reset orders --region r1 --epoch {2**49} --reason x --yes", REFUSED, "use 0 to"),
    ("wal reset orders --region r9 --reason x --yes", REFUSED, "region r9 is not mapped"),
    ("wal reset orders --region r1 --to 999 --reason x --yes", REFUSED, "was not seen yet"),
    # binlogs and replicas
    ("binlog explain none", REFUSED, "there is no binlog of none"),
    ("binlog explain sales none", REFUSED, "there is no binlog of sales/none"),
    ("binlog disable none", REFUSED, "there is no binlog of none"),
    ("binlog drop none --yes", REFUSED, "there is no binlog of none"),
    ("binlog approve sales", WRONG_USAGE, "--upto"),
    ("binlog approve sales --upto 1", REFUSED, "no cut of sales waits for approval"),
    ("binlog set sales/orders --ttl 7d", WRONG_USAGE, "DB does not fit: The database; a table is a word of its own"),
    ("binlog set sales --ttl week", WRONG_USAGE, "is not a duration"),
    ("binlog set sales --ttl 9999d", WRONG_USAGE, "a TTL is"),
    ("binlog gc", REFUSED, "cannot reach Temporal"),
    ("replica explain none", REFUSED, "no replica of tablet none"),
    ("replica full-copy t1 b9 --reason x", REFUSED, "no replica of tablet t1 on backend b9"),
    ("replica decommission b9 --yes", REFUSED, "there is no backend b9"),
]


def everything(db: Database) -> dict[str, list[object]]:
    """Return the rows of every table, without the log of calls, which has refusals, and the counter of decisions."""
    tables = [t for t in METADATA.sorted_tables if t.name not in ("call", "instance_guard")]
    with db.read() as c:
        return {t.name: sorted(map(str, c.execute(t.select()))) for t in tables}


@pytest.fixture
def filled(shop: Rig) -> Rig:
    """Fill the database with a quarantined mark, a topic with a region, a binlog and a replica."""
    shop.mark("dropped", NewMark(id="aside", vault="disk", keys=("b.dat",)))
    shop.sql("UPDATE {}mark SET quarantined_reason = 'DELETE_FAILED', failures = 8 WHERE id = 'aside'")
    make_topic(shop.db, "orders", 5, {"r1": None}, enabled=False)
    stores = shop.all_stores
    stores.binlogs.configs.put("shop", "sales", "", LogRetention(ttl_seconds=60))
    tablet = Tablet(tablet="t1", part="p1", copies=(Copy(backend="b1", uid="u1"),))
    stores.binlogs.placements.place("shop", Placement(db="sales", table="orders", tablets=(tablet,)))
    return shop


def test_wrong_input_is_refused_and_changes_nothing(offline: Run, filled: Rig, subtests: pytest.Subtests) -> None:
    before = everything(filled.db)

    for words, code, sentence in REFUSALS:
        with subtests.test(words=words):
            refused = offline(*shlex.split(words))

            assert (refused.returncode, refused.stdout) == (code, "")
            assert sentence in " ".join(refused.stderr.split())
            assert not re.search("Traceback|Value error", refused.stderr)
            assert code == WRONG_USAGE or len(refused.stderr.splitlines()) == 1
    assert everything(filled.db) == before
