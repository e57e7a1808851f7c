"""A mark that waits for its second pass has no stored files, and yet a request for them may be on its way."""

from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, range_order, replaced_worker
from tests.support.rig import Rig, put


def test_discard_waits_for_a_replaced_worker(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(rig.local(tmp_path / "v"), "t/a.dat")
    rig.mark("dropped", NewMark(id="m", vault="disk", prefix="t/"))
    rig.later(DUE_SECONDS)
    quarantine = QuarantineStore(rig.db)
    with replaced_worker(rig, range_order(rig), monkeypatch):
        assert rig.row("dropped", "m").first_pass_at is not None
        with pytest.raises(BadInput, match="a request may still delete files of dropped m"):
            quarantine.discard("shop", Ref("dropped", "m"), "its files must stay")
    rig.later(120)
    quarantine.discard("shop", Ref("dropped", "m"), "its files must stay")

    assert rig.row("dropped", "m") is None
