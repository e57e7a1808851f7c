"""`sexton undelete`: remove the delete markers that hide deleted objects in a versioned bucket."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import human_bytes, quantity, utc
from sexton.interfaces.cli.context import OptionalInstance, log_call, open_database
from sexton.interfaces.cli.output import emit
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.printable import printable
from sexton.storage.model import Undeleted

if TYPE_CHECKING:
    from sexton.operators.holds.model import Hold
    from sexton.runtime.deployment import Deployment
    from sexton.storage.vaults import ProvenVaults

PATIENCE_SECONDS = 600.0
"""For so long an undelete waits for a round that deletes its objects."""
MOST_MARKS = 50
"""Marks that are named for people; --json names all."""
Keys = dict[str, list[str]]
"""Vault → keys to undelete; none: all under the prefix."""


def undelete(
    given: OptionalInstance = None,
    vault: Annotated[str, typer.Option(help="The vault; with --round: only what the round hid there.")] = "",
    prefix: Annotated[str, typer.Option(help="Keys of the vault that begin with this.")] = "",
    number: Annotated[
        int | None, typer.Option("--round", help="Objects that this round hid.", min=1, max=2**63 - 1)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Undelete objects that were deleted in a versioned bucket. Safe to repeat.

    The newest version of each key becomes visible; keys that are visible are left alone.
    First their common folder is held for 7 days, and a round that deletes them is waited for, up to 10 minutes.
    Exit code 1: some objects could not be undeleted.

    Example: sexton undelete shop --vault cold --prefix data/12/
    """
    from sexton.operators.registry.undelete import find_deletion, find_later_deletions

    if (number is None) is (not prefix) or (prefix and not vault):
        raise WrongUsage("name what to undelete: --vault V --prefix P, or --round R")
    with open_database() as service:
        instance = service.stores.registry.resolve_instance(given)

        def meant() -> Keys:
            return {vault: []} if number is None else _hidden_keys(service, instance, number, vault)

        keys = meant()
        places, run = _places(instance, prefix, keys), partial(_undelete, service.stores.vaults_of_any_round, instance)
        result = run(prefix, keys, only_count=True)
        # What a round is about to hide is meant, too.
        if not dry_run and (result.shown or any(find_deletion(service.db, p, keys[str(p.vault)]) for p in places)):
            typer.echo(_summary(result, "to undelete: "), err=True)
            if not yes:
                held = printable(", ".join(place.what for place in places))
                typer.confirm(f"For 7 days no round will delete in {held}. Undelete them?", abort=True, err=True)
            subject = f"{vault}/{prefix}" if number is None else f"round {number} {vault}".rstrip()
            with log_call(service, "undelete", instance, subject):
                keys, places = _hold_and_wait(service, instance, prefix, meant)
                result = run(prefix, keys, only_count=False)
        refs = {ref for place in places for ref in find_later_deletions(service.db, place, keys[str(place.vault)])}
        later = [f"{ref.kind}/{ref.id}" for ref in sorted(refs)]
        emit(result, dry_run=dry_run, holds=[place.id for place in places if place.id], deletes_later=later)
        typer.echo(_summary(result, "would undelete: " if dry_run else "undeleted: "))
        if later:
            typer.echo(f"{quantity(len(later), 'mark')} may delete them again when no hold keeps them; to give one up:")
        for mark in later[:MOST_MARKS]:
            typer.echo(f"  sexton quarantine discard {instance} {mark} --reason undelete")
    if result.failed:
        raise typer.Exit(1)


def _places(instance: str, prefix: str, keys: Keys) -> list["Hold"]:
    """Return what is to be held, one place in each vault: the prefix, or the folder of the keys."""
    from sexton.operators.registry.undelete import common_folder, hold_on

    return [hold_on(instance, vault, prefix or common_folder(of_vault)) for vault, of_vault in keys.items()]


def _hold_and_wait(
    service: "Deployment", instance: str, prefix: str, meant: Callable[[], Keys]
) -> tuple[Keys, list["Hold"]]:
    """Hold the places of what is meant, and wait until nothing deletes it; return what is meant then, and the holds."""
    from sexton.operators.registry.undelete import UndeleteUnsafe, find_deletion, hold_place

    until, shown, keys = time.monotonic() + PATIENCE_SECONDS, "", meant()
    holds: dict[str, Hold] = {}
    while True:
        for place in _places(instance, prefix, keys):
            hold = hold_place(service.stores.holds, place)
            if hold.id not in {known.id for known in holds.values()}:
                text = f"hold {hold.id} keeps {printable(hold.what)} of {instance} until {utc(hold.expires_at)}"
                typer.echo(f"{text}; to end it: sexton hold release {hold.id}", err=True)
            holds[str(hold.vault)] = hold
        reason = next(filter(None, (find_deletion(service.db, holds[vault], keys[vault]) for vault in keys)), "")
        if not reason:
            before, keys = keys, meant()
            if keys == before:
                return keys, list(holds.values())
        elif time.monotonic() >= until:
            raise UndeleteUnsafe(f"{reason}; nothing was undeleted, and the hold stays: run the command again later")
        else:
            if reason != shown:
                typer.echo(f"waiting: {reason}", err=True)
            shown = reason
            time.sleep(1)


def _hidden_keys(service: "Deployment", instance: str, number: int, vault: str) -> Keys:
    """Return vault → keys that a round hid, from the complete audit of the round; ``vault``: only of this one."""
    from sexton.storage.model import KeyOutcome

    keys: dict[str, dict[str, None]] = {}
    for row in service.stores.audit.rows(number):
        if row.instance != instance:
            raise BadInput(f"round {number} is of instance {row.instance}, not of {instance}")
        if row.outcome == KeyOutcome.HIDDEN and (not vault or row.vault == vault):
            keys.setdefault(row.vault, {})[row.key] = None
    if not keys:
        where = f" in vault {vault}" if vault else ""
        raise BadInput(
            f"round {number} hid nothing{where}, according to the audit; objects that it deleted in a bucket without "
            "versions cannot be restored"
        )
    return {name: list(vault_keys) for name, vault_keys in keys.items()}


def _undelete(
    vaults: "ProvenVaults", instance: str, prefix: str, keys_by_vault: Keys, *, only_count: bool
) -> Undeleted:
    """Undelete, or only count, page by page; return the sums."""
    total = Undeleted()
    for name, vault_keys in keys_by_vault.items():
        for page in vaults.get(instance, name).undelete(prefix, vault_keys, dry_run=only_count):
            vaults.get(instance, name)  # prove again that the vault is ours, before the next page
            counts, more = total.model_dump(exclude={"reason"}), page.model_dump(exclude={"reason"})
            total = Undeleted(**{key: n + more[key] for key, n in counts.items()}, reason=total.reason or page.reason)
    return total


def _summary(counts: Undeleted, action: str) -> str:
    lines = [
        f"{action}{quantity(counts.shown, 'object')}, {human_bytes(counts.bytes)}, "
        f"under {quantity(counts.markers, 'delete marker')} ({quantity(counts.examined, 'key')} examined)"
    ]
    if counts.nothing_left:
        lines.append(f"{quantity(counts.nothing_left, 'key')}: no version is left, only delete markers")
    if counts.older:
        suspended = "deleted while versioning was suspended; what is shown may be older than what was deleted"
        lines.append(f"{quantity(counts.older, 'object')} of them: {suspended}")
    if counts.failed:
        lines.append(f"{quantity(counts.failed, 'key')} failed, the first: {counts.reason}")
    return "\n".join(lines)


COMMANDS = {"undelete": undelete}
