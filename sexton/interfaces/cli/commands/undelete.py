"""`sexton undelete`: remove the delete markers that hide deleted objects in a versioned bucket."""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import human_bytes, quantity, utc
from sexton.interfaces.cli.context import OptionalInstance, log_call, open_database
from sexton.interfaces.cli.output import emit
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.storage.model import Undeleted

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.operators.holds.model import Hold
    from sexton.storage.vaults import ProvenVaults

PATIENCE_SECONDS = 600.0
"""For so long an undelete waits for rounds that delete its objects."""


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
    First their common folder is held for 7 days, and rounds that delete there are waited for, up to 10 minutes.
    Exit code 1: some objects could not be undeleted.

    Example: sexton undelete shop --vault cold --prefix data/12/
    """
    from sexton.operators.registry.undelete import common_folder, find_later_deletions, first_of, give_up, hold_place

    if (number is None) is (not prefix) or (prefix and not vault):
        raise WrongUsage("name what to undelete: --vault V --prefix P, or --round R")
    with open_database() as service:
        instance = service.stores.registry.resolve_instance(given)
        vaults = service.stores.vaults_of_any_round
        keys_by_vault = {vault: list[str]()} if number is None else _hidden_keys(service, instance, number, vault)
        run = partial(_undelete, vaults, instance, prefix, keys_by_vault)
        result = run(only_count=True)
        holds: list[Hold] = []
        if result.shown and not dry_run:
            typer.echo(_summary(result, "to undelete: "), err=True)
            if not yes:
                typer.confirm("Undelete them?", abort=True, err=True)
            subject = f"{vault}/{prefix}" if number is None else f"round {number} {vault}".rstrip()
            with log_call(service, "undelete", instance, subject):
                places = {name: prefix or common_folder(keys) for name, keys in keys_by_vault.items()}
                holds = [hold_place(service.stores.holds, instance, *place) for place in places.items()]
                _wait(service, holds)
                result = run(only_count=False)
        emit(result, dry_run=dry_run)
        typer.echo(_summary(result, "would undelete: " if dry_run else "undeleted: "))
        for hold in holds:
            typer.echo(f"hold {hold.id} keeps what is undeleted until {utc(hold.expires_at)}")
            if marks := find_later_deletions(service.db, hold):
                typer.echo(f"then {first_of(marks)} may delete it again, unless you {give_up(instance, marks)}")
    if result.failed:
        raise typer.Exit(1)


def _wait(service: "Deployment", holds: Sequence["Hold"]) -> None:
    """Wait until nothing deletes objects of the places that are held; print what is waited for."""
    from sexton.operators.registry.undelete import UndeleteUnsafe, find_deletion

    said, until = "", time.monotonic() + PATIENCE_SECONDS
    while reason := next(filter(None, (find_deletion(service.db, hold) for hold in holds)), ""):
        if time.monotonic() >= until:
            raise UndeleteUnsafe(f"{reason}; nothing was undeleted, the hold stays: run the command again later")
        if reason != said:
            typer.echo(f"waiting: {reason}", err=True)
        said = reason
        time.sleep(1)


def _hidden_keys(service: "Deployment", instance: str, number: int, vault: str) -> dict[str, list[str]]:
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
    vaults: "ProvenVaults", instance: str, prefix: str, keys_by_vault: dict[str, list[str]], *, only_count: bool
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
    if counts.failed:
        lines.append(f"{quantity(counts.failed, 'key')} failed, the first: {counts.reason}")
    return "\n".join(lines)


COMMANDS = {"undelete": undelete}
