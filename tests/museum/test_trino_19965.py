"""Trino #19965: statistics files (Puffin) were no data files and no manifests, so the cleanup of orphans removed them.

Sexton's check calls a file an orphan only if its key is one that the owner gives to files of records: a file of any
other name is counted as of unknown kind, and never becomes a mark.
"""

from tests.integration.check.conftest import Owned

STATISTICS = ("data/t1/20231130_061015.stats", "data/t1/metadata/snap-1.puffin", "data/version-hint.text")


def test_trino_19965_files_of_unknown_names_are_no_orphans(owned: Owned) -> None:
    for key in STATISTICS:
        owned.write_old(key)
    owned.write_live("data/t1/r1_0.dat")
    for _ in range(3):
        owned.later(3 * 86_400)
        report = owned.check()
    owned.repairs.orphans("shop")
    owned.later(3 * 86_400)
    owned.round()

    assert report.found == {"UNKNOWN_KIND": len(STATISTICS)}
    assert owned.count("mark") == 0
    assert all((owned.root / key).exists() for key in STATISTICS)
