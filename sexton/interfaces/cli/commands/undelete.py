"""`sexton undelete`: remove the delete markers that hide deleted objects in a versioned bucket."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.insight.wording import human_bytes, quantity
from sexton.interfaces.cli.context import OptionalInstance, log_call, open_database
from sexton.interfaces.cli.output import emit
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.storage.model import Undeleted

if TYPE_CHECKING:
    from sexton.deployment import Deployment
    from sexton.storage.vaults import ProvenVaults


def undelete(
    given: OptionalInstance = None,
    vault: Annotated[str, typer.Option(help="The vault; with --round: only what the round hid there.")] = "",
    prefix: Annotated[str, typer.Option(help="Keys of the vault that begin with this.")] = "",
    number: Annotated[
        int | None, typer.Option("--round", help="Objects that this round hid.", min=1, max=2**63 - 1)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, and do not count first.")] = False,
) -> None:
    """Undelete objects that were deleted in a versioned bucket. Safe to repeat.

    The newest version of each key becomes visible; keys that are visible are left alone.
    Exit code 1: some objects could not be undeleted.

    Example: sexton undelete shop --vault cold --prefix data/12/
    """
    from sexton.operators.registry.undelete_check import ensure_undelete_is_safe

    if (number is None) is (not prefix) or (prefix and not vault):
        raise WrongUsage("name what to undelete: --vault V --prefix P, or --round R")
    with open_database() as service:
        instance = service.stores.registry.resolve_instance(given)
        vaults = service.stores.vaults_of_any_round
        keys_by_vault = {vault: list[str]()} if number is None else _hidden_keys(service, instance, number, vault)
        for name in keys_by_vault:
            vaults.get(instance, name)

        def ensure_safe() -> None:
            for name, keys in keys_by_vault.items():
                ensure_undelete_is_safe(service.db, instance, name, prefix, keys)

        run = partial(_undelete, vaults, instance, prefix, keys_by_vault)
        ensure_safe()
        result = run(only_count=True) if dry_run or not yes else None
        if result is not None and not dry_run:
            typer.echo(_summary(result, "to undelete: "), err=True)
            if result.shown:
                typer.confirm("Undelete them?", abort=True, err=True)
        if result is None or (result.shown and not dry_run):
            subject = f"{vault}/{prefix}" if number is None else f"round {number} {vault}".rstrip()
            ensure_safe()  # again: counting, and the answer, may have taken long
            with log_call(service, "undelete", instance, subject):
                result = run(only_count=False)
    emit(result, dry_run=dry_run)
    typer.echo(_summary(result, "would undelete: " if dry_run else "undeleted: "))
    if result.failed:
        raise typer.Exit(1)


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
