"""The numbers of the last screen, each held against a listing."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from examples.demo.console import Console, DemoFailed
from examples.demo.listing import Key, Objects, in_vault, only, told, without
from examples.minidb import Size, Vault


def same_report(
    console: Console, vaults: Collection[Vault], what: str, report: Mapping[str, Any], gone: Objects
) -> None:
    """Hold Sexton's own report against the difference of two listings, in sum and per vault.

    Bytes of exact keys on S3 are what minidb said (``estimated``), those of listed prefixes were measured.

    Raises:
        DemoFailed: the round did not succeed.
    """
    if report["state"] != "SUCCEEDED":
        raise DemoFailed(f"the round of {what} ended {report['state']}: {report['error']}")
    console.same(f"{what}: deleted", len(gone), report["deleted"])
    console.same(f"{what}: bytes", sum(gone.values()), _bytes(report))
    for nothing in ("absent", "failed", "quarantined", "bytes_hidden"):
        console.same(f"{what}: {nothing}", 0, report[nothing])
    for vault in vaults:
        ours = in_vault(gone, vault.name)
        tallies = [t for t in report["tallies"] if t["vault"] == vault.name]
        found = Size(sum(t["deleted"] for t in tallies), sum(_bytes(t) for t in tallies))
        console.same(f"{what}: files and bytes in vault {vault.name}", Size(len(ours), sum(ours.values())), found)


def balance(
    console: Console,
    vaults: Collection[Vault],
    ever: Objects,
    garbage: Mapping[str, Collection[Key]],
    last: Objects,
    kept: Mapping[str, Collection[Key]],
) -> None:
    """Show what went and what stayed, by reason, and that the vaults hold exactly what they should.

    Args:
        console: where it is shown.
        vaults: all of them.
        ever: every object that was there.
        garbage: what had to go, by reason.
        last: the last listing.
        kept: what had to stay, by reason; Sexton's own marker in each vault is added.
    """
    markers = {(vault.name, "_sexton/vault.json") for vault in vaults}
    for verdict, objects, reasons in (
        ("deleted", ever, garbage),
        ("kept", last, {**kept, "Sexton's own markers: whose vault this is": markers}),
    ):
        for why, keys in reasons.items():
            some = only(objects, keys)
            console.say(f"  {verdict:<8} {len(some):>6,} objects {sum(some.values()):>11,} bytes  {why}")
    expected = without(ever, set().union(*garbage.values()))
    console.same("what has a reason to be kept", set(expected), markers.union(*kept.values()))
    for vault in vaults:
        should, found = in_vault(expected, vault.name), in_vault(last, vault.name)
        console.same(f"vault {vault.name}", should, found)
        verdict = "the same, key by key" if should == found else "DIFFERENT"
        console.say(f"  vault {vault.name:<5} expected {told(should)} = listed {told(found)}: {verdict}")


def where_next(console: Console, home: Path, environment: Mapping[str, str], instance: str, held: str) -> None:
    """Show the addresses, and commands to try; ``held`` is a key with a story."""
    console.say(f"  Temporal UI: {environment['SEXTON_TEMPORAL__UI_URL']}")
    console.say(f"  metrics:     http://{environment['SEXTON_METRICS__LISTEN']}/metrics")
    console.say("  commands to try, in another terminal:")
    if home != Path(".sexton").resolve():
        console.say(f"    export SEXTON_HOME={home}")
    for command in (f"why {held}", "status", f"plan {instance}", f"holds {instance}"):
        console.say(f"    .venv/bin/sexton {command}")


def verdict(console: Console) -> None:
    """Say whether every number agreed, and which did not."""
    if not console.disagreements:
        console.say("every number agrees")
        return
    console.say(f"{len(console.disagreements)} numbers disagree:")
    for line in console.disagreements:
        console.say(f"  {line}")


def _bytes(counted: Mapping[str, Any]) -> int:
    return int(counted["bytes_freed"]) + int(counted["bytes_estimated"])
