"""Quarantined marks that only the owner can free are all shown to it, in pages."""

import pytest

from sexton.contract import NewMark
from sexton.marks.model import Reason, Ref
from tests.support.rig import Rig


def aside(rig: Rig, kind: str, id_: str, reason: Reason, instance: str = "shop") -> None:
    rig.mark(kind, NewMark(id=id_, vault="disk", keys=("a",)), instance=instance)
    rig.sql(
        "UPDATE {}mark SET quarantined_reason = :reason WHERE instance = :instance AND kind = :kind AND id = :id",
        reason=reason,
        instance=instance,
        kind=kind,
        id=id_,
    )


@pytest.mark.parametrize("freed", [False, True])
def test_marks_that_only_the_owner_frees_are_read_in_pages(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, freed: bool
) -> None:
    monkeypatch.setattr("sexton.recycle.pipeline.sql.owner_marks.ASKED_AT_ONCE", 2)
    rig.instance("other")
    for kind, id_ in (("dropped", "c"), ("dropped", "a"), ("compacted", "b"), ("prepared", "a"), ("dropped", "b")):
        aside(rig, kind, id_, Reason.SCHEMA_MISSING)
    aside(rig, "dropped", "failed", Reason.DELETE_FAILED)
    aside(rig, "dropped", "other", Reason.SCHEMA_MISSING, "other")
    rig.mark("dropped", NewMark(id="free", vault="disk", keys=("a",)))

    pages = []
    for page in rig.stores.owner_marks.quarantined("shop"):
        pages.append([m.ref for m in page])
        if freed:  # as a round does where the owner has mended them
            rig.stores.owner_marks.free("shop", pages[-1])

    assert pages == [
        [Ref("compacted", "b"), Ref("dropped", "a")],
        [Ref("dropped", "b"), Ref("dropped", "c")],
        [Ref("prepared", "a")],
    ]
    assert rig.count("mark", instance="shop", quarantined_reason=Reason.SCHEMA_MISSING) == (0 if freed else 5)
