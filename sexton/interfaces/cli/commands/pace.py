"""`sexton pace`: show how fast each place is deleted from, and set an operator's upper bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WrongUsage, log_call, open_database
from sexton.interfaces.cli.json_output import emit_object, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc_column

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.recycle.pacing.model import Cap, PlaceFigures
    from sexton.recycle.pacing.store import PaceStore
    from sexton.storage.model import VaultSpec

EFFECTIVE = "effective within 5 s over all workers"
COLUMNS = ("vault", "place", "keys/s", "refused at", "cap", "throttled", "workers", "last refused (UTC)")


def pace(
    vault: Annotated[str | None, typer.Argument(metavar="[VAULT]", help="VAULT or INSTANCE/VAULT.")] = None,
    rate: Annotated[str | None, typer.Argument(metavar="[KEYS/s]", help="An upper bound, e.g. 500/s.")] = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    clear: Annotated[bool, typer.Option("--clear", help="Remove the vault's cap.")] = False,
) -> None:
    """Print the pace of deletions, or cap a vault.

    A cap is effective within 5 s. Needs no Temporal.

    The rate of a place (a vault, or a first folder in it) is learned from the requests that its store refuses. A cap
    bounds the whole vault over all workers, until it is cleared. To delete nothing at all: sexton stop.

    Example: sexton pace cold 500/s --reason 'the bucket is shared'
    """
    from sexton.recycle.pacing.policy import keys_per_second

    if (rate is not None or clear) and vault is None:
        raise WrongUsage("name a vault, as VAULT or INSTANCE/VAULT; see: sexton vault list")
    if (rate is not None) == clear and vault is not None:
        raise WrongUsage("give keys per second, e.g. 500/s, or --clear; exactly one of the two")
    with open_database() as service:
        store = service.stores.paces
        if vault is None:
            _show(store, service.stores.registry.vaults(), service.settings.s3.endpoint_url)
        elif rate is not None:
            with log_call(service, "pace", _instance_of(service, vault), f"{vault} {rate}", reason):
                cap = store.put_cap(vault, keys_per_second(rate), reason)
            typer.echo(
                f"{cap.instance}/{cap.vault} is deleted from at {cap.keys_per_second} keys/s at most, {EFFECTIVE}; "
                f"until: sexton pace {cap.instance}/{cap.vault} --clear"
            )
        else:
            with log_call(service, "pace clear", _instance_of(service, vault), vault, reason):
                name, removed = store.clear_cap(vault)
            typer.echo(f"the cap of {name} is removed, {EFFECTIVE}" if removed else f"{name} had no cap")


def _instance_of(service: "OperatorService", vault: str) -> str:
    """Return the instance of VAULT or INSTANCE/VAULT, for the log of calls; empty where several are possible."""
    instance, slash, _ = vault.partition("/")
    instances = {v.instance for v in service.stores.registry.vaults() if v.name == vault}
    return instance if slash else instances.pop() if len(instances) == 1 else ""


def _show(store: "PaceStore", vaults: "Sequence[VaultSpec]", endpoint_url: str) -> None:
    from sexton.recycle.pacing.policy import vault_of

    caps = {(c.instance, c.vault): c for c in store.caps()}
    places = [(f, vault_of(f.place, vaults, endpoint_url)) for f in store.figures()]
    if wants_json():
        emit_object(
            {
                "places": [_place_json(f, vault, caps.get(vault) if vault else None) for f, vault in places],
                "caps": [stable(c) for c in caps.values()],
            }
        )
        return
    rows = [_place_row(f, vault, caps.get(vault) if vault else None) for f, vault in places]
    used_vaults = {vault for _, vault in places}
    unused_caps = [cap for vault, cap in caps.items() if vault not in used_vaults]
    rows += [(f"{c.instance}/{c.vault}", "", "", "", f"{c.keys_per_second:,}", "", "", "") for c in unused_caps]
    show_table("" if rows else "nothing was deleted yet, and no vault has a cap", COLUMNS, rows)


def _place_json(f: "PlaceFigures", vault: tuple[str, str] | None, cap: "Cap | None") -> dict[str, object]:
    name = "/".join(vault) if vault else None
    return {"vault": name, **stable(f), "cap": cap.keys_per_second if cap else None}


def _place_row(f: "PlaceFigures", vault: tuple[str, str] | None, cap: "Cap | None") -> tuple[str, ...]:
    throttled = f"{100 * f.throttled / f.requests:.1f} %" if f.requests else "-"
    return (
        "/".join(vault) if vault else "",
        f.place,
        f"{f.keys_per_second:,}",
        f"{f.ceiling:,}" if f.ceiling else "-",
        f"{cap.keys_per_second:,}" if cap else "-",
        throttled,
        str(f.workers),
        utc_column(f.throttled_at),
    )
