"""No later round deletes files of a discarded mark, but with something above it; a check reports what stays."""

import re
from contextlib import suppress
from functools import partial

import pytest

from config.settings import Settings
from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.model import ClaimRequest, Ref
from sexton.owners.catalog.model import AlreadyThere, NewTable, Schema
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.runtime.deployment import Deployment
from tests.integration.owners.catalog.shop import HOUR, PREPARED, RETAINED, SUFFIXES, Shop, id_of
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, DEPLOYMENT, GRACE

TWO_PARENTS = [("index", "partition"), ("partition", "index")]
AN_HISTORY = 31 * DAY
"""After this long, history is trimmed."""


def quarantine(shop: Shop, kind: str, id_: str) -> None:
    assert shop.row(kind, id_) is not None
    shop.update("mark", {"kind": kind, "id": id_}, quarantined_reason="BAD_KEY")


def discard(shop: Shop, kind: str, id_: str) -> None:
    """Quarantine a mark, and discard it as an operator does."""
    quarantine(shop, kind, id_)
    QuarantineStore(shop.db).discard("shop", Ref(kind, id_), "anna")


def reported(shop: Shop) -> set[str]:
    """Return the records that a check reports because nothing deletes them."""
    texts = shop.catalog_owner.contradictions("shop")
    return {f"{text.kind}/{text.id}" for text in texts if re.search("^it (is|was|has).* no mark", text.text)}


def expand_dropped(shop: Shop, **kinds: str) -> None:
    """Drop something of each of these tables, and mark its tablets."""
    for table, kind in kinds.items():
        shop.drop(kind, table)
    shop.later(RETAINED)
    shop.expand_all()


def table_for_each_kind(shop: Shop) -> dict[str, str]:
    """Load a table of two tablets for each kind, which is its name; return kind → id of what is dropped."""
    for kind in SUFFIXES:
        shop.loaded(shop.table(kind, 2))
    return {kind: id_of(kind, kind) for kind in SUFFIXES}


def run_rounds(shop: Shop, number: int = 3) -> None:
    for _ in range(number):
        shop.round()
        shop.second_pass()


def test_what_was_dropped_and_discarded_stays(shop: Shop) -> None:
    ids = table_for_each_kind(shop)
    objects = shop.objects()
    for kind in ids:
        shop.drop(kind, kind)
    before = reported(shop)
    for kind, id_ in ids.items():
        discard(shop, kind, id_)
        with pytest.raises(contract.Refused, match=f"{id_} is gone"):
            shop.undrop(kind, kind)
    shop.round(after=AN_HISTORY)

    assert (before, reported(shop)) == (set(), {f"{kind}/{id_}" for kind, id_ in ids.items()})
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
    shop.drop("table", later=RETAINED)
    shop.round()

    assert shop.objects() == set()
    assert reported(shop) == {f"txn/{txn}"}


def test_a_parent_with_marked_tablets_is_not_discarded(shop: Shop) -> None:
    ids = table_for_each_kind(shop)
    objects = shop.objects()
    expand_dropped(shop, **{kind: kind for kind in ids})

    for kind, id_ in ids.items():
        quarantine(shop, kind, id_)
        with pytest.raises(BadInput, match="undrop it, or discard those first"):
            Deployment(Settings(deployment=DEPLOYMENT), shop.db).discard("shop", Ref(kind, id_), "anna")
        shop.undrop(kind, kind)
    shop.round()

    assert shop.objects() == objects


def test_files_of_a_discarded_tablet_are_orphans(shop: Shop) -> None:
    kinds = table_for_each_kind(shop)
    expand_dropped(shop, **{kind: kind for kind in kinds})
    tablets = {kind: shop.catalog.tablets(table=kind)[0] for kind in kinds}
    for kind, tablet in tablets.items():
        discard(shop, "tablet", tablet)
        with pytest.raises(contract.Refused, match=f"tablet {tablet} is gone"):
            shop.undrop(kind, kind)
    run_rounds(shop, 2)
    left = sorted(shop.objects())
    shop.check(after=3 * DAY)

    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == (0, 0)
    assert [key.split("/")[1] for key in left] == sorted(tablets.values())
    assert sorted((f.type, f.key) for f in shop.runs.findings("shop", 0, 100)) == [("ORPHAN", key) for key in left]


def test_what_is_in_a_marked_tablet_is_not_discarded_alone(shop: Shop) -> None:
    tablet, [rowset] = shop.filled()
    files = set(shop.keys(rowset))
    shop.catalog.drop_rowset(rowset)
    shop.catalog.drop_partition("t-p")
    shop.expand_all()
    with pytest.raises(BadInput, match=f"tablet {tablet} is marked"):
        discard(shop, "dropped", rowset)
    shop.catalog.undrop_partition("t-p")
    discard(shop, "dropped", rowset)
    shop.round(after=30 * DAY)

    assert files <= shop.objects()


def test_a_dropped_rowset_waits_for_no_discarded_input(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    output = shop.compacted(tablet, inputs)
    discard(shop, "compacted", inputs[0])
    kept = set(shop.keys(inputs[0]))
    shop.catalog.drop_rowset(output)
    for _ in range(2):
        shop.round(after=AN_HISTORY)

    assert shop.objects() == kept
    assert reported(shop) == {f"rowset/{inputs[0]}"}


def test_a_discarded_part_of_a_dropped_table_stays_dropped(shop: Shop) -> None:
    for kind in ("index", "partition"):
        shop.loaded(shop.table(kind))
        shop.drop(kind, kind)
        discard(shop, kind, id_of(kind, kind))
        shop.catalog.drop_table(kind)

        with pytest.raises(contract.Refused, match=f"ancestor table {kind}"):
            shop.undrop(kind, kind)
    shop.round(after=RETAINED)

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
        shop.round(after=seconds)
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
    expand_dropped(shop, t="table")
    discard(shop, "tablet", tablet)
    for _ in range(3):
        shop.round(after=10 * DAY)

    assert (shop.objects(), shop.refs()) == (kept, set())


def test_no_tablet_is_marked_again_while_its_partition_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [kept] = shop.catalog.tablets(index="i2")
    expand_dropped(shop, t="partition")
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


def test_an_id_of_something_deleted_is_refused(shop: Shop) -> None:
    for kind in SUFFIXES:
        shop.table(kind)
        shop.drop(kind, kind)
    shop.later(RETAINED)
    run_rounds(shop, 1)
    create = {
        "table": partial(shop.table, "table"),
        "index": partial(shop.catalog.create_table, NewTable(id="t2", indexes={"index-i": Schema()})),
        "partition": partial(shop.catalog.add_partition, "partition", "partition-p", 1),
    }

    for kind, create_again in create.items():
        with pytest.raises(contract.Refused):
            shop.undrop(kind, kind)
        with pytest.raises(AlreadyThere, match="was used before"):
            create_again()
    assert shop.number(shop.t.tablets) == 0


def test_a_prepared_rowset_outlives_its_discarded_tablet(shop: Shop) -> None:
    tablets = {name: shop.table(name)[0] for name in ("marked", "discarded")}
    shop.loaded([*tablets.values()])
    rowsets = {name: shop.written([tablet])[1][0] for name, tablet in tablets.items()}
    keys = {name: shop.keys(rowset)[0] for name, rowset in rowsets.items()}
    expand_dropped(shop, marked="table", discarded="table")
    for tablet in tablets.values():
        discard(shop, "tablet", tablet)
    shop.round()
    assert shop.number(shop.t.tables) == 0
    assert not list(shop.catalog_owner.contradictions("shop"))  # its mark deletes it

    discard(shop, "prepared", rowsets["discarded"])
    for seconds in (PREPARED, 2 * RETAINED):
        shop.round(after=seconds)

    texts = [text.text for text in shop.catalog_owner.contradictions("shop")]
    assert shop.objects() & {*keys.values()} == {keys["discarded"]}
    assert texts == [f"its tablet has no record: {tablets['discarded']}"]


def test_a_load_is_committed_whole_or_not(shop: Shop) -> None:
    loads = []
    for name in ("deleted", "discarded"):
        shop.table(name, 1, partitions=(f"{name}-1", f"{name}-2"))
        txn = shop.catalog.begin(name, 10 * DAY)
        shop.write(*shop.catalog.prepare_rowsets(txn, shop.catalog.tablets(table=name), "disk"))
        shop.catalog.drop_partition(f"{name}-1")
        loads.append(txn)
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", shop.catalog.tablets(partition="discarded-1")[0])
    run_rounds(shop, 2)
    assert shop.number(shop.t.tablets) == 2

    for txn in loads:
        with pytest.raises(SextonError):
            shop.catalog.commit(txn)


@pytest.mark.parametrize("is_round_between", [False, True])
def test_both_undrops_keep_what_was_discarded(shop: Shop, is_round_between: bool) -> None:
    tables = {first: (first, second, shop.table(first)[0]) for first, second in TWO_PARENTS}
    shop.loaded([tablet for *_, tablet in tables.values()])
    objects = shop.objects()
    expand_dropped(shop, **{first: first for first in tables})
    for table, (_, second, _) in tables.items():
        shop.drop(second, table)
    shop.later(60)
    for table, (first, _, tablet) in tables.items():
        discard(shop, "tablet", tablet)
        with pytest.raises(contract.Refused, match=f"tablet {tablet} is gone"):
            shop.undrop(first, table)
    shop.later(RETAINED)
    if is_round_between:
        run_rounds(shop)
    for table, (_, second, _) in tables.items():
        with suppress(SextonError):  # refused if the round has ended it
            shop.undrop(second, table)
    run_rounds(shop)

    assert shop.objects() == objects != set()
    assert not list(shop.catalog_owner.contradictions("shop"))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), TWO_PARENTS)
def test_a_discard_is_not_trimmed_before_both_parents_ended(shop: Shop, first: str, second: str) -> None:
    shop.retain(**{second: 60 * DAY})
    tablet, _ = shop.filled()
    objects = shop.objects()
    expand_dropped(shop, t=first)
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
    shop.drop("table", later=RETAINED)
    shop.expand_all()
    shop.hold("table", "t")
    shop.round()
    shop.catalog.undrop_table("t")
    shop.round()

    assert not list(shop.catalog_owner.contradictions("shop"))
