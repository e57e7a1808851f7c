"""The place that an undelete of keys holds, and what it waits for."""

import pytest

from sexton.marks.model import Ref
from sexton.operators.registry.undelete import ClaimOver, UndeleteUnsafe, common_folder, decide


def test_the_common_folder_contains_every_key() -> None:
    folders = {
        ("d/1/x",): "d/1/x",
        ("d/1/x", "d/1/y"): "d/1/",
        ("d/1/x", "d/12/x"): "d/",
        ("d/1", "d/1/x"): "d/",
        ("a", "b"): "",
        ("d/1", "d/1"): "d/",
    }

    assert {keys: common_folder(list(keys)) for keys in folders} == folders


def test_an_undelete_waits_only_for_a_round() -> None:
    first, second, failed, finished = (
        ClaimOver(Ref("dropped", id_), in_first_pass, quarantined, finished)
        for id_, in_first_pass, quarantined, finished in (
            ("a", True, "", False),
            ("b", False, "", False),
            ("c", True, "DELETE_FAILED", False),
            ("d", False, "", True),
        )
    )
    for claims in ([first], [second], [failed], [finished]):
        assert "sexton stop shop" in decide("shop", claims, works=True)

    assert [decide("shop", claims, works=False) for claims in ([], [second])] == ["", ""]
    for claims, way_out in (
        ([second, first], "sexton round run shop"),
        ([failed], "dropped/c"),
        ([finished], "dropped/d"),
    ):
        with pytest.raises(UndeleteUnsafe, match=way_out):
            decide("shop", claims, works=False)
