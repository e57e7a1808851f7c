"""No later round deletes files of a discarded mark, but with something above it; a check reports what stays."""

import re
from contextlib import suppress
from functools import partial

import pytest

from config.settings import Settings, owner_policy
from sexton import contract
from sexton.deployment import Deployment
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import ClaimRequest, Ref
from sexton.owners.catalog.model import AlreadyThere, NewTable, Schema
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import HOUR, IDS, OWN, PREPARED, RETAINED, Shop
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, DEPLOYMENT, GRACE, RETENTION

TWO_PARENTS = [("index", "partition"), ("partition", "index")]
AN_HISTORY = 31 * DAY
"""After this long, history is trimmed."""


def quarantine(shop: Shop, kind: str, id_: str) -> None:
    mark = shop.db.t.mark
    with shop.db.write() as c:
        is_mark = (mark.c.kind == kind) & (mark.c.id == id_)
        assert c.execute(mark.update().where(is_mark).values(quarantined_reason="BAD_KEY")).rowcount == 1


def discard(shop: Shop, kind: str, id_: str) -> None:
    """Quarantine a mark, and discard it as an operator does."""
    quarantine(shop, kind, id_)
    QuarantineStore(shop.db).discard("shop", Ref(kind, id_), "anna")


def reported(shop: Shop) -> set[str]:
    """Return the records that a check reports because nothing deletes them."""
    texts = shop.catalog_owner.contradictions("shop")
    return {f"{text.kind}/{text.id}" for text in texts if re.search("^it (is|was|has).* no mark", text.text)}


def expand_dropped(shop: Shop, kind: str) -> None:
    """Drop something, and mark its tablets."""
    shop.drop(kind)
    shop.later(RETAINED)
    shop.expand_all()


def run_rounds(shop: Shop, number: int = 3) -> None:
    for _ in range(number):
        shop.round()
        shop.second_pass()


@pytest.mark.parametrize("kind", IDS)
def test_what_was_dropped_and_discarded_stays(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table("t", 2))
    objects = shop.objects()
    shop.drop(kind)
    before = reported(shop)
    discard(shop, kind, IDS[kind])

    with pytest.raises(contract.Refused, match=f"{IDS[kind]} is gone"):
        shop.undrop(kind)
    shop.later(AN_HISTORY)
    shop.round()

    assert (before, reported(shop)) == (set(), {f"{kind}/{IDS[kind]}"})
    assert shop.objects() == objects != set()


def test_discarded_rowsets_and_ends_are_reported(shop: Shop) -> None:
    tablets = shop.table()
    txn, [rowset] = shop.written(tablets)
    dropped = shop.loaded(tablets)[0]
    shop.catalog.drop_rowset(dropped)
    shop.catalog.abort(txn)
    before = reported(shop)
    shop.later(HOUR + PREPARED)
    for kind, id_ in (("prepared", rowset), ("dropped", dropped), ("txn_label", txn)):
        discard(shop, kind, id_)
    assert before == set()
    assert reported(shop) == {f"rowset/{rowset}", f"rowset/{dropped}", f"txn/{txn}"}
    texts = {record.id: record.text for record in shop.catalog_owner.contradictions("shop")}
    end = "but has no mark: it is deleted when its table, index or partition is dropped"
    assert (texts[rowset], texts[dropped]) == (f"it is tmp, {end}", f"it is dropped, {end}")
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()

    assert shop.objects() == set()
    assert reported(shop) == {f"txn/{txn}"}


@pytest.mark.parametrize("kind", IDS)
def test_a_parent_with_marked_tablets_is_not_discarded(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table("t", 2))
    objects = shop.objects()
    expand_dropped(shop, kind)
    quarantine(shop, kind, IDS[kind])

    with pytest.raises(BadInput, match="undrop it, or discard those first"):
        Deployment(Settings(deployment=DEPLOYMENT), shop.db).discard("shop", Ref(kind, IDS[kind]), "anna")
    shop.undrop(kind)
    shop.round()

    assert shop.objects() == objects


@pytest.mark.parametrize("kind", IDS)
def test_files_of_a_discarded_tablet_are_orphans(shop: Shop, kind: str) -> None:
    tablets = shop.table("t", 2)
    shop.loaded(tablets)
    expand_dropped(shop, kind)
    discard(shop, "tablet", tablets[0])
    with pytest.raises(contract.Refused, match=f"tablet {tablets[0]} is gone"):
        shop.undrop(kind)
    run_rounds(shop, 2)
    left = shop.objects()
    shop.later(3 * DAY)
    shop.check()

    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == (0, 0)
    assert [key.split("/")[1] for key in left] == [tablets[0]]
    assert [(f.type, f.key) for f in shop.runs.findings("shop", 0, 100)] == [("ORPHAN", key) for key in left]


def test_what_is_in_a_marked_tablet_is_not_discarded_alone(shop: Shop) -> None:
    [tablet] = shop.table()
    rowset = shop.loaded([tablet])[0]
    files = set(shop.keys(rowset))
    shop.catalog.drop_rowset(rowset)
    shop.catalog.drop_partition("t-p")
    shop.expand_all()
    with pytest.raises(BadInput, match=f"tablet {tablet} is marked"):
        discard(shop, "dropped", rowset)
    shop.catalog.undrop_partition("t-p")
    discard(shop, "dropped", rowset)
    shop.later(30 * DAY)
    shop.round()

    assert files <= shop.objects()


def test_a_dropped_rowset_waits_for_no_discarded_input(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = [shop.loaded([tablet])[0] for _ in range(2)]
    output = shop.compacted(tablet, inputs)
    discard(shop, "compacted", inputs[0])
    kept = set(shop.keys(inputs[0]))
    shop.catalog.drop_rowset(output)
    for _ in range(2):
        shop.later(AN_HISTORY)
        shop.round()

    assert shop.objects() == kept
    assert reported(shop) == {f"rowset/{inputs[0]}"}


@pytest.mark.parametrize("kind", ["index", "partition"])
def test_a_discarded_part_of_a_dropped_table_stays_dropped(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table())
    shop.drop(kind)
    discard(shop, kind, IDS[kind])
    shop.catalog.drop_table("t")

    with pytest.raises(contract.Refused, match="ancestor table t"):
        shop.undrop(kind)
    shop.later(RETAINED)
    shop.round()

    assert shop.objects() == set()


def discarded_below_index(shop: Shop, tablets: int = 1) -> str:
    """Drop the second index of a table, mark its tablets, discard the first one, and return it."""
    shop.loaded(shop.table("t", tablets, i1=Schema(), i2=Schema()))
    tablet, *_ = shop.catalog.tablets(index="i2")
    shop.catalog.drop_index("i2")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablet)
    return tablet


def test_a_tablet_and_index_discarded_outlive_their_table(shop: Shop) -> None:
    tablet = discarded_below_index(shop)
    files = {key for key in shop.objects() if tablet in key}
    discard(shop, "index", "i2")
    with pytest.raises(AlreadyThere, match="i2"):
        shop.catalog.add_index("t", "i2", Schema(), 1)
    shop.catalog.drop_table("t")
    for seconds in (RETAINED, DAY):
        shop.later(seconds)
        shop.round()
        shop.second_pass()

    assert shop.number(shop.t.tables) == 0
    assert shop.objects() == files != set()


def test_a_discarded_index_with_a_deleted_tablet_stays_dropped(shop: Shop) -> None:
    discarded_below_index(shop, 2)
    quarantine(shop, "index", "i2")
    run_rounds(shop, 1)
    QuarantineStore(shop.db).discard("shop", Ref("index", "i2"), "anna")
    shop.catalog.drop_table("t")
    shop.catalog.undrop_table("t")

    with pytest.raises(contract.Refused, match="i2 is gone"):
        shop.catalog.undrop_index("i2")


def test_compacted_rowsets_of_a_discarded_tablet_are_deleted(shop: Shop) -> None:
    [tablet] = shop.table()
    kept = set(shop.keys(shop.compacted(tablet, [shop.loaded([tablet])[0] for _ in range(2)])))
    expand_dropped(shop, "table")
    discard(shop, "tablet", tablet)
    for _ in range(3):
        shop.later(10 * DAY)
        shop.round()

    assert (shop.objects(), shop.refs()) == (kept, set())


def test_no_tablet_is_marked_again_while_its_partition_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [kept] = shop.catalog.tablets(index="i2")
    expand_dropped(shop, "partition")
    discard(shop, "tablet", kept)
    shop.catalog.drop_index("i2")
    shop.round()
    shop.later(GRACE + 700)
    claim, done = ClaimStore.claim, list[bool]()

    def expand_and_claim(store: ClaimStore, request: ClaimRequest) -> object:
        if Ref("partition", "t-p") in request.refs and not done:
            done.append(True)
            shop.expand_all()  # as `sexton plan` does, which needs no lease
        return claim(store, request)

    monkeypatch.setattr(ClaimStore, "claim", expand_and_claim)
    shop.round()
    shop.catalog.undrop_index("i2")
    shop.round()

    assert done
    assert not list(shop.catalog_owner.contradictions("shop"))


@pytest.mark.parametrize("kind", IDS)
def test_an_id_of_something_deleted_is_refused(shop: Shop, kind: str) -> None:
    shop.table("t")
    shop.drop(kind)
    shop.later(RETAINED)
    run_rounds(shop, 1)
    create = {
        "table": partial(shop.table, "t"),
        "index": partial(shop.catalog.create_table, NewTable(id="t2", indexes={"t-i": Schema()})),
        "partition": partial(shop.catalog.add_partition, "t", "t-p", 1),
    }

    with pytest.raises(contract.Refused):
        shop.undrop(kind)
    with pytest.raises(AlreadyThere, match="was used before"):
        create[kind]()


@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_prepared_rowset_outlives_its_discarded_tablet(shop: Shop, is_discarded: bool) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    _, [rowset] = shop.written([tablet])
    [key] = shop.keys(rowset)
    expand_dropped(shop, "table")
    discard(shop, "tablet", tablet)
    shop.round()
    assert shop.number(shop.t.tables) == 0
    assert not list(shop.catalog_owner.contradictions("shop"))  # its mark deletes it

    if is_discarded:
        discard(shop, "prepared", rowset)
    for seconds in (PREPARED, 2 * RETAINED):
        shop.later(seconds)
        shop.round()

    texts = [text.text for text in shop.catalog_owner.contradictions("shop")]
    assert (key in shop.objects()) == is_discarded
    assert texts == ([f"its tablet has no record: {tablet}"] if is_discarded else [])


@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_load_is_committed_whole_or_not(shop: Shop, is_discarded: bool) -> None:
    shop.table("t", 1, partitions=("p1", "p2"))
    [dropped], [used] = shop.catalog.tablets(partition="p1"), shop.catalog.tablets(partition="p2")
    txn = shop.catalog.begin("l", 10 * DAY)
    shop.write(*shop.catalog.prepare_rowsets(txn, [dropped, used], "disk"))
    shop.catalog.drop_partition("p1")
    shop.later(RETAINED)
    shop.expand_all()
    if is_discarded:
        discard(shop, "tablet", dropped)
    run_rounds(shop, 2)
    assert not shop.catalog.tablets(partition="p1")

    with pytest.raises(SextonError):
        shop.catalog.commit(txn)


@pytest.mark.parametrize("is_round_between", [False, True])
@pytest.mark.parametrize(("first", "second"), TWO_PARENTS)
def test_both_undrops_keep_what_was_discarded(shop: Shop, first: str, second: str, is_round_between: bool) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    objects = shop.objects()
    expand_dropped(shop, first)
    shop.drop(second)
    shop.later(60)
    discard(shop, "tablet", tablet)
    with pytest.raises(contract.Refused, match=f"tablet {tablet} is gone"):
        shop.undrop(first)
    shop.later(RETAINED)
    if is_round_between:
        run_rounds(shop)
    with suppress(SextonError):  # refused if the round has ended it
        shop.undrop(second)
    run_rounds(shop)

    assert shop.objects() == objects != set()
    assert not list(shop.catalog_owner.contradictions("shop"))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), TWO_PARENTS)
def test_a_discard_is_not_trimmed_before_both_parents_ended(shop: Shop, first: str, second: str) -> None:
    shop.policy = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, OWN | {second: 60 * DAY})})
    [tablet] = shop.table()
    shop.loaded([tablet])
    objects = shop.objects()
    expand_dropped(shop, first)
    shop.drop(second)
    discard(shop, "tablet", tablet)
    for _ in range(3):
        shop.later(AN_HISTORY)
        run_rounds(shop, 2)

    assert shop.objects() == objects != set()


def test_a_table_beside_a_claimed_partition_leaves_no_tablet(shop: Shop) -> None:
    shop.loaded(shop.table("t", 1, partitions=("p1", "p2")))
    [kept] = shop.catalog.tablets(partition="p1")
    shop.catalog.drop_partition("p1")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", kept)
    with installed(crash_at("claim.committed")), suppress(Crash):
        shop.round()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.expand_all()
    shop.hold("table", "t")
    shop.round()
    shop.catalog.undrop_table("t")
    shop.round()

    assert not list(shop.catalog_owner.contradictions("shop"))
