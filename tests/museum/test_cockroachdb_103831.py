"""CockroachDB #103831: the protection of a dead job retained garbage for months, unnoticed.

A protection in Sexton expires, its age is a metric with an alert, and the round that ends it logs its owner.
"""

import logging
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.protection.model import Item, Protection, ProtectionEnd, ProtectionState
from sexton.protection.policy import digest
from tests.support.kept import kept_texts
from tests.support.rig import Rig, listing, put
from tests.support.scrape import scrape

HOUR, DAY = 3_600, 86_400


@pytest.fixture
def root(rig: Rig, tmp_path: Path) -> Path:
    root = rig.local(tmp_path / "v")
    put(root, "data/a.dat", 700)
    rig.mark("dropped", NewMark(id="a", vault="disk", keys=("data/a.dat",), bytes=700))
    rig.later(10_801)
    return root


def left_behind(rig: Rig, **more: object) -> None:
    items = [Item("disk", "data/a.dat")]
    protection = Protection(instance="shop", job="copy:7", owner="ada", digest=digest(items), **more)
    rig.registrar.register_at_once(protection, items, HOUR)


def test_cockroachdb_103831_protection_of_a_dead_job_expires(
    rig: Rig, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left_behind(rig)
    during = rig.round()
    rig.later(HOUR - 60)
    young = scrape(rig)
    protected = listing(root)
    rig.later(61)
    with caplog.at_level(logging.WARNING):
        after = rig.round()
    old = scrape(rig)

    assert (kept_texts(during), during.protected_bytes) == ({"protection copy:7": 1}, 700)
    assert protected == {"data/a.dat": 700}
    assert young("sexton_protections", instance_id="shop") == 1
    assert young("sexton_last_round_protected_bytes", instance_id="shop") == 700
    assert (young("sexton_oldest_protection_age_seconds", instance_id="shop") or 0) >= HOUR - 60
    assert (after.removed, listing(root)) == (1, {})
    assert "copy:7 of shop, owner ada" in caplog.text
    assert old("sexton_protections", instance_id="shop") == 0
    assert old("sexton_protections_ended_total", instance_id="shop", why=str(ProtectionEnd.OVERDUE)) == 1


@pytest.mark.parametrize(("watermark", "why"), [(None, ProtectionEnd.NO_WATERMARK), (5, ProtectionEnd.TOO_LONG)])
def test_cockroachdb_103831_finished_protection_always_ends(
    rig: Rig, root: Path, watermark: int | None, why: ProtectionEnd
) -> None:
    left_behind(rig, valid_ts=5)
    if watermark is not None:
        rig.protections.watermark("shop", watermark)
    assert rig.protections.finish("shop", "copy:7").state is ProtectionState.SOFT
    if watermark is not None:
        rig.round()
        assert listing(root) == {"data/a.dat": 700}
        rig.later(DAY + 1)
    soft = scrape(rig)
    rig.round()

    assert soft("sexton_soft_protections", instance_id="shop") == 1
    assert listing(root) == {}
    assert scrape(rig)("sexton_protections_ended_total", instance_id="shop", why=str(why)) == 1
