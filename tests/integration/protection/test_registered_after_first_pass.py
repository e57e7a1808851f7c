"""A registration is refused while a request for what it names may be on its way, although no row names a file."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Item
from sexton.protection.sql import claimed_objects
from tests.integration.protection.registrations import protect, registration
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, range_order, replaced_worker
from tests.support.rig import Rig, put


@pytest.mark.parametrize("name", ["t/a.dat", "t/", "t/inner/"])
def test_a_registration_waits_for_a_replaced_worker(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    put(root, "other/b.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        assert rig.row("dropped", "m").first_pass_at is not None
        put(root, "t/a.dat")  # an upload that began before the claim ends late
        put(root, "t/inner/a.dat")
        with pytest.raises(Invalid, match="being deleted"):
            protect(rig, "job", name)
        protect(rig, "other job", "other/")


def test_a_filter_is_told_where_a_request_may_delete(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(rig.local(tmp_path / "v"), "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    filter_ = Filter.build([Item("disk", "t/a.dat")], 1)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        sealed = rig.registrar.register_at_once(registration("job", filter_=filter_), [], filter_=filter_).sealed

    assert sealed is not None
    assert sealed.named == ("disk/t/: claimed",)


def test_a_prefix_is_registered_once_no_request_is_on_its_way(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.local(tmp_path / "v")
    put(root, "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        pass
    rig.later(38)
    put(root, "t/a.dat")

    assert protect(rig, "job", "t/").state == "ACTIVE"


@pytest.mark.parametrize(
    ("prefix", "overlaps"),
    [("p7/", True), ("p7/inner/", True), ("p", True), ("", True), ("q/", False), ("p7", True), ("a/p7/", False)],
)
def test_prefixes_overlap_where_one_begins_with_the_other(prefix: str, overlaps: bool) -> None:
    registered = claimed_objects._Prefixes({f"p{n}/" for n in range(100)})

    assert registered.overlap(prefix) == overlaps
