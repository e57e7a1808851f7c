"""The owner contract refuses invalid input, names the broken rule, and stores nothing of it."""

from collections.abc import Iterator

import pytest

from sexton import contract
from sexton.contract import InstanceNotRegistered, NewMark
from sexton.kernel.errors import BadInput
from sexton.owners.plugins import add_instance
from tests.servers.postgres import new_database
from tests.support.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rig for all tests of this file: of refused input nothing is stored."""
    rig = Rig(new_database()).instance()
    rig.registry.add_instance("lake", underscore_in_ids=True)
    yield rig
    rig.db.close()


@pytest.fixture(autouse=True)
def _unmarked(rig: Rig) -> Iterator[None]:
    yield
    rig.sql("DELETE FROM {}mark")


def prepare(rig: Rig, ids: list[str], ttl: float, *, prefix: str = "r/", instance: str = "shop") -> None:
    """Prepare with one prefix, however many ids there are."""
    with rig.db.write() as c:
        contract.prepare(c, instance, "load", ids, "disk", [prefix], ttl)


def test_marks_of_an_unknown_instance_are_refused(rig: Rig) -> None:
    for instance in ["nope", "", "SHOP"]:
        with pytest.raises(InstanceNotRegistered, match="SX004 unknown instance"):
            rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("x",)), instance=instance)
        with pytest.raises(InstanceNotRegistered):
            prepare(rig, ["r1"], 60, instance=instance)


BAD = {
    "id is text of 128": [{"id": i, "keys": ["k"]} for i in ("", "a" * 129, "é", "a/b", "a b", "a\n")],
    "prefix ends with a separator": [{"prefix": p} for p in ("", "data/12", "data/x.dat")],
    "prefix stays inside": [
        {"prefix": p}
        for p in ("/", "/a/", "a//b/", "../", "./", "a/../b/", "a/./b/", "a/..//", "_sexton/", "_sexton/x/")
    ],
    "keys are 1 to 1000": [{"keys": []}, {"keys": [str(n) for n in range(1_001)]}],
    "names prefix or keys": [{"keys": ["k"], "prefix": "a/"}],
    "bytes are 0 to 1 pib": [{"keys": ["k"], "bytes": -1}],
    "texts have at most 1024 bytes": [
        {"vault": "v" * 1_025, "keys": ["k"]},
        {"prefix": "é" * 512 + "/"},
        {"keys": ["k"], "owner_txn": "t" * 1_025},
        {"keys": ["k"], "parent": ("p" * 1_025, "id")},
        {"keys": ["k"], "parent": ("table", "p" * 1_000_000)},
    ],
}


def test_a_mark_that_breaks_a_rule_is_refused_with_its_id(rig: Rig) -> None:
    for rule in BAD:
        for wrong in BAD[rule]:
            with pytest.raises(BadInput, match=f"refused: mark {rule}"):
                rig.mark("dropped", NewMark(**({"id": "good", "vault": "disk"} | wrong)))
        if rule.startswith("prefix"):
            for wrong in BAD[rule]:
                with pytest.raises(BadInput, match=f"refused: mark {rule}"):
                    prepare(rig, ["good"], 60, prefix=wrong["prefix"])

        assert rig.count("mark") == 0


def test_a_key_has_at_most_1024_bytes_and_a_mark_1000_keys(rig: Rig) -> None:
    rig.mark("dropped", NewMark(id="longest", vault="disk", keys=("k" * 1_024, "é" * 512)))
    rig.mark("dropped", NewMark(id="a" * 128, vault="disk", keys=tuple(f"k{n}" for n in range(1_000))))
    assert len(rig.row("dropped", "a" * 128)._mapping["keys"]) == 1_000

    for key in ["k" * 1_025, "é" * 513, "a/" * 500_000]:
        with pytest.raises(BadInput, match=r"SX006 .*at most 1024"):
            rig.mark("dropped", NewMark(id="t1", vault="disk", keys=("short", key)))
        assert rig.count("mark") == 2


def test_a_kind_must_be_a_valid_name(rig: Rig) -> None:
    for kind in ["", "Dropped", "9a", "a b", "a" * 33, "drop/ped"]:
        with pytest.raises(BadInput, match="refused: mark kind is a name"):
            rig.mark(kind, NewMark(id="t1", vault="disk", keys=("k",)))


def test_n7_an_underscore_may_be_in_an_id_or_end_a_prefix(rig: Rig) -> None:
    prepare(rig, ["user_events.v2"], 60, prefix="data/user_events.v2/", instance="lake")
    rig.mark("dropped", NewMark(id="user_events", vault="disk", keys=("data/a_b_",)), instance="lake")
    assert rig.count("mark") == 2

    for mark in (NewMark(id="12", vault="disk", prefix="data/12_"), NewMark(id="3", vault="disk", prefix="_")):
        with pytest.raises(BadInput, match=r"SX006 the .*prefix"):
            rig.mark("dropped", mark, instance="lake")
    with pytest.raises(BadInput, match=r"SX006 the .*prefix"):
        prepare(rig, ["12"], 60, prefix="data/12_", instance="lake")
    with pytest.raises(BadInput, match=r"SX006 the id.* contains _"):
        rig.mark("dropped", NewMark(id="12_3", vault="disk", prefix="data/12_3/"))
    rig.mark("dropped", NewMark(id="12", vault="disk", prefix="data/12_"))
    assert rig.count("mark") == 3


def test_n7_an_instance_never_changes_its_rule(rig: Rig) -> None:
    with pytest.raises(BadInput, match="its ids may not contain _"):
        rig.registry.add_instance("shop", underscore_in_ids=True)
    with pytest.raises(BadInput, match="its files are named"):
        add_instance(rig.db, rig.registry, "lake", "catalog", underscore_in_ids=True)


def test_a_transaction_needs_a_valid_time_to_live(rig: Rig) -> None:
    for ttl in [0, -1, 366 * 86_400 + 1, 10**18, float("nan"), float("inf")]:
        with pytest.raises(BadInput, match="txn_ttl"):
            prepare(rig, ["r1"], ttl)
        with pytest.raises(BadInput, match="one prefix for each id"):
            prepare(rig, ["r1", "r2"], 60)

        assert rig.count("mark") == 0


def test_an_unknown_field_of_a_mark_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="parent_kind"):
        NewMark(id="a", vault="disk", prefix="a/", parent_kind="table")  # type: ignore[call-arg]
