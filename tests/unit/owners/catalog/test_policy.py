"""The catalog decides versions, fences and retention; each key has one meaning, and a prefix covers its own files."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.sections import RecycleSection
from config.settings import Settings
from sexton.kernel.errors import BadInput
from sexton.marks.model import Fenced
from sexton.owners.catalog.kinds import KINDS
from sexton.owners.catalog.model import IndexFormat, TxnStatus, parse, rowset_keys, rowset_prefix, tablet_prefix
from sexton.owners.catalog.plugin import PLUGIN
from sexton.owners.catalog.rowsets import verdict
from sexton.recycle.planning.policy import for_owner
from sexton.storage.policy import check_key, check_prefix


def test_only_an_aborted_or_forgotten_load_is_fenced() -> None:
    combinations = [(), *((s,) for s in TxnStatus), *product(TxnStatus, repeat=2)]

    let_go = [statuses for statuses in combinations if verdict(statuses)[0] is Fenced.FENCED]

    assert let_go == [(), (TxnStatus.ABORTED,), (TxnStatus.ABORTED, TxnStatus.ABORTED)]


def test_unknown_status_blocks_and_is_named() -> None:
    for statuses in [("visible",), *product(("visible",), TxnStatus), *product(TxnStatus, ("visible",))]:
        answer, why = verdict(statuses)

        assert answer is Fenced.UNKNOWN
        assert "'visible'" in why


def test_every_kind_has_the_retention_of_its_setting() -> None:
    names = sorted({kind.setting for kind in PLUGIN.kinds if kind.setting})
    seconds = {name: 4_000 + n for n, name in enumerate(names)}
    policy = for_owner(Settings(recycle=RecycleSection(**seconds)).policy(), "catalog")

    retained = {kind.name: policy.retention_seconds[kind.name] for kind in PLUGIN.kinds}

    assert retained == {kind.name: seconds.get(kind.setting, 0) for kind in PLUGIN.kinds}


def test_order_of_kinds_names_all_kinds_of_the_catalog() -> None:
    own = {kind.name for kind in PLUGIN.kinds}

    assert {*PLUGIN.after, *(k for before in PLUGIN.after.values() for k in before), *own} == KINDS.keys()


ids = st.from_regex(r"[A-Za-z0-9.-]{1,20}", fullmatch=True).filter(lambda i: i not in (".", ".."))
formats = st.sampled_from(IndexFormat)


@given(ids, ids, formats, ids, ids, ids)
def test_a_key_is_under_the_prefix_of_its_rowset_only(
    tablet: str, rowset: str, format_: IndexFormat, inverted: str, other_tablet: str, other: str
) -> None:
    for name in rowset_keys(tablet, rowset, 2, True, format_, [inverted]):
        check_key(name)
        assert parse(name) == (tablet, rowset)
        assert name.startswith(rowset_prefix(tablet, rowset))
        assert name.startswith(rowset_prefix(other_tablet, other)) == ((other_tablet, other) == (tablet, rowset))
        assert name.startswith(tablet_prefix(other_tablet)) == (other_tablet == tablet)
    for prefix in (tablet_prefix(tablet), rowset_prefix(tablet, rowset)):
        check_prefix(prefix)
        assert parse(prefix) is None


@given(st.integers(0, 5), st.booleans(), st.sampled_from(IndexFormat), st.lists(ids, max_size=3, unique=True))
def test_a_rowset_has_a_file_per_segment_and_index(
    segments: int, bitmap: bool, format_: IndexFormat, inverted: list[str]
) -> None:
    keys = rowset_keys("t", "r", segments, bitmap, format_, inverted)

    per_segment = 1 + (len(inverted) if format_ is IndexFormat.V1 else bool(inverted))
    assert len(set(keys)) == len(keys) == segments * per_segment + bitmap
    assert all(name.startswith("data/t/r_") and parse(name) is not None for name in keys)


def test_malformed_id_makes_no_key() -> None:
    for wrong in ("", ".", "..", "a_b", "a/b", "a b", "é", "x" * 129):
        for make in (lambda id_: tablet_prefix(id_), lambda id_: rowset_prefix("t", id_)):
            with pytest.raises(BadInput, match="is not an id"):
                make(wrong)


FOREIGN = (
    *("data/t/r_0.dat/x", "data/t/r_00.dat", "data/t/r_-1.dat", "data/t/r_0.tmp", "data/t/r.dat"),
    *("data/t/r_0_1_2.idx", "data/../r_0.dat", "data/t/.._0.dat", "x/t/r_0.dat", "data/t/r_delete_bitmap.db2"),
    *("data/t/r_\N{DIGIT ONE}0.dat ", "data/t/r_\N{ARABIC-INDIC DIGIT ONE}.dat"),
)


def test_foreign_name_does_not_parse() -> None:
    assert [name for name in FOREIGN if parse(name) is not None] == []
