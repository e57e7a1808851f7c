"""Where the files of a due mark are, or why nothing of it is deleted."""

from typing import Any

import pytest

from sexton.marks.model import DueMark, Expansion, Place, Reason
from sexton.marks.policy import Unplaced, covering_prefixes, places


def make_mark(**columns: Any) -> DueMark:
    """Return a due mark of a prefix in vault ``disk``."""
    row: dict[str, Any] = {"kind": "dropped", "id": "t", "retention_starts_at": 0, "vault": "disk", "bytes": 0}
    return DueMark(**(row | {"prefix": "data/t/", "keys": None} | columns))


def test_a_mark_names_its_own_files() -> None:
    keys = make_mark(prefix=None, keys=("data/a.dat", "data/b.dat"), etags=("1", "2"))

    assert places(make_mark(), None) == (Place(vault="disk", prefix="data/t/"),)
    assert places(keys, None) == (Place(vault="disk", keys=("data/a.dat", "data/b.dat"), etags=("1", "2")),)


def test_the_owners_expansion_replaces_what_the_mark_names() -> None:
    expanded = Place(vault="cold", keys=("data/c.dat",))

    assert places(make_mark(), Expansion(places=(expanded,))) == (expanded,)
    assert places(make_mark(), Expansion()) == ()


@pytest.mark.parametrize(
    ("mark", "expansion", "reason"),
    [
        (make_mark(), Expansion(problem=(Reason.OWNER_CORRUPT, "no such load")), Reason.OWNER_CORRUPT),
        (make_mark(prefix=None), None, Reason.UNEXPANDED),
        (make_mark(vault=None), None, Reason.NO_VAULT),
        (make_mark(prefix="data/t"), None, Reason.BAD_PREFIX),
        (make_mark(prefix=""), None, Reason.BAD_PREFIX),
        (make_mark(prefix=None, keys=("data/a.dat", "")), None, Reason.BAD_KEY),
        (make_mark(), Expansion(places=(Place(vault="disk", prefix="/"),)), Reason.BAD_PREFIX),
        (make_mark(), Expansion(places=(Place(vault="disk", keys=("../a",)),)), Reason.BAD_KEY),
    ],
)
def test_a_mark_without_certain_files_is_not_resolved(
    mark: DueMark, expansion: Expansion | None, reason: Reason
) -> None:
    with pytest.raises(Unplaced) as refusal:
        places(mark, expansion)

    assert refusal.value.reason is reason


def test_covering_prefixes_end_at_separators() -> None:
    assert covering_prefixes("data/t1_2.dat") == ["data/", "data/t1_", "data/t1_2.dat"]
    assert covering_prefixes("data/t1/") == ["data/", "data/t1/"]
