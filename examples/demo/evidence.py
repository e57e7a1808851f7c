"""Compare Sexton's reports with listings, and account for every object that was ever in a vault."""

from collections.abc import Collection, Mapping
from typing import Any

from examples.demo.console import Console, DemoFailed
from examples.demo.listing import Key, Objects, in_vault, only, summary, without
from examples.minidb import Size, Vault


def compare_report(
    console: Console, vaults: Collection[Vault], label: str, report: Mapping[str, Any], deleted: Objects
) -> None:
    """Compare Sexton's own report with the difference of two listings, in sum and per vault.

    Bytes of exact keys on S3 are those that minidb reported (``estimated``); those of listed prefixes were measured.

    Raises:
        DemoFailed: the round did not succeed.
    """
    if report["state"] != "SUCCEEDED":
        raise DemoFailed(f"the round of {label} ended {report['state']}: {report['error']}")
    console.same(f"{label}: deleted", len(deleted), report["deleted"])
    console.same(f"{label}: bytes", sum(deleted.values()), _bytes(report))
    for zero in ("absent", "failed", "quarantined", "bytes_hidden"):
        console.same(f"{label}: {zero}", 0, report[zero])
    for vault in vaults:
        listed = in_vault(deleted, vault.name)
        tallies = [t for t in report["tallies"] if t["vault"] == vault.name]
        reported = Size(sum(t["deleted"] for t in tallies), sum(_bytes(t) for t in tallies))
        console.same(
            f"{label}: files and bytes in vault {vault.name}", Size(len(listed), sum(listed.values())), reported
        )


def print_balance(
    console: Console,
    before: Objects,
    garbage: Mapping[str, Collection[Key]],
    after: Objects,
    kept: Mapping[str, Collection[Key]],
) -> None:
    """Show what was deleted and what was kept, by reason; compare the vaults with what they must contain.

    Args:
        console: where it is shown.
        before: every object that was ever there.
        garbage: what had to be deleted, by reason.
        after: the last listing.
        kept: what had to stay, by reason.
    """
    for verdict, objects, reasons in (("deleted", before, garbage), ("kept", after, kept)):
        for reason, keys in reasons.items():
            console.say(f"{verdict:<8}{len(only(objects, keys)):>6,}  {reason}")
    expected = without(before, set().union(*garbage.values()))
    console.same("objects that have a reason to be kept", set(expected), set().union(*kept.values()))
    console.same("the vaults, key by key", expected, dict(after))
    console.say(f"Seen: a listing has {summary(after)}, exactly these.")


def _bytes(counts: Mapping[str, Any]) -> int:
    return int(counts["bytes_freed"]) + int(counts["bytes_estimated"])
