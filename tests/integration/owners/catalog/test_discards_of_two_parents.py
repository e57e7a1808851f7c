"""A tablet below a dropped index and a dropped partition is discarded: what one of them decided outlives the other."""

from contextlib import suppress

import pytest

from config.settings import owner_policy
from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.errors import CatalogError
from sexton.owners.catalog.model import Schema
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import OWN, RETAINED, Shop
from tests.integration.owners.catalog.test_discarded import discard
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, GRACE, RETENTION

IDS = {"index": "i2", "partition": "t-p"}
OTHER = {"index": "partition", "partition": "index"}


def loaded(shop: Shop) -> tuple[str, str, set[str]]:
    """Return the tablets of ``i2`` and of ``i1`` in partition ``t-p``, and the files of the first."""
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [kept], [other] = shop.catalog.tablets(index="i2"), shop.catalog.tablets(index="i1")
    return kept, other, {key for key in shop.objects() if kept in key}


def drop(shop: Shop, kind: str) -> None:
    getattr(shop.catalog, f"drop_{kind}")(IDS[kind])


def undrop(shop: Shop, kind: str) -> None:
    getattr(shop.catalog, f"undrop_{kind}")(IDS[kind])


def place_hold(shop: Shop, kind: str, id_: str) -> None:
    shop.holds.place(Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="look first"), 300 * DAY)


def run_rounds(shop: Shop, number: int = 3) -> None:
    for _ in range(number):
        shop.round()
        shop.second_pass()


def contradictions(shop: Shop) -> list[str]:
    return [text.text for text in shop.catalog_owner.contradictions("shop")]


@pytest.mark.parametrize("is_round_between", [False, True])
@pytest.mark.parametrize("first", IDS)
def test_both_undrops_keep_what_was_discarded(shop: Shop, first: str, is_round_between: bool) -> None:
    kept, _, files = loaded(shop)
    drop(shop, first)
    shop.later(RETAINED)
    shop.expand_all()
    drop(shop, OTHER[first])
    shop.later(60)
    discard(shop, "tablet", kept)
    with pytest.raises(contract.Refused, match=f"tablet {kept} is gone"):
        undrop(shop, first)
    shop.later(RETAINED)
    if is_round_between:
        run_rounds(shop)
    with suppress(contract.ContractError, CatalogError):  # refused if the round has ended it
        undrop(shop, OTHER[first])
    run_rounds(shop)

    assert files
    assert files <= shop.objects()
    assert contradictions(shop) == []


@pytest.mark.parametrize("is_index_discarded", [False, True])
def test_a_discard_is_not_trimmed_while_a_parent_waits(shop: Shop, is_index_discarded: bool) -> None:
    kept, held, files = loaded(shop)
    place_hold(shop, "tablet", held)
    drop(shop, "index")
    shop.later(RETAINED)
    shop.expand_all()
    drop(shop, "partition")
    shop.later(60)
    discard(shop, "tablet", kept)
    if is_index_discarded:
        discard(shop, "index", "i2")
    shop.later(RETAINED)
    run_rounds(shop, 2)
    for _ in range(3):
        shop.later(31 * DAY)
        shop.round()
    shop.second_pass()

    assert files
    assert files <= shop.objects()


def test_a_discard_is_not_trimmed_before_the_other_parent_is_due(shop: Shop) -> None:
    shop.policy = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, OWN | {"index": 60 * DAY})})
    kept, _, files = loaded(shop)
    drop(shop, "index")
    drop(shop, "partition")
    shop.later(RETAINED)
    shop.expand_all()
    for mark in shop.marked("tablet"):
        discard(shop, "tablet", mark.id)
    discard(shop, "partition", "t-p")
    for _ in range(3):
        shop.later(31 * DAY)
        run_rounds(shop, 2)

    assert kept
    assert files
    assert files <= shop.objects()


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
    place_hold(shop, "table", "t")
    shop.round()
    shop.catalog.undrop_table("t")
    shop.round()

    assert contradictions(shop) == []
