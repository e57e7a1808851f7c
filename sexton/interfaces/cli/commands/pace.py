"""`sexton pace`: how fast each place is deleted from, and an operator's upper bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened
from sexton.interfaces.cli.output import dump, show, stamp

if TYPE_CHECKING:
    from sexton.recycle.pacing.model import Cap, PlaceFigures
    from sexton.recycle.pacing.store import PaceStore
    from sexton.storage.model import VaultSpec

WITHIN = "effective within 5 s over all workers"
COLUMNS = ("vault", "place", "keys/s", "refused at", "cap", "throttled", "workers", "last refused (UTC)")


def pace(
    vault: Annotated[str | None, typer.Argument(metavar="[VAULT]", help="VAULT or INSTANCE/VAULT.")] = None,
    rate: Annotated[str | None, typer.Argument(metavar="[KEYS/s]", help="An upper bound, e.g. 500/s.")] = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    clear: Annotated[bool, typer.Option("--clear", help="Take the vault's cap back.")] = False,
    as_json: Json = False,
) -> None:
    """Print how fast is deleted where, or bound it for one vault, within 5 s. Needs no Temporal.

    The rate of a place (a vault, or a first folder in it) is learned from what its store refuses. A cap bounds the
    whole vault over all workers, and stays until it is cleared. To delete nothing at all: sexton stop.

    Example: sexton pace cold 500/s --reason 'the bucket is shared'
    """
    from sexton.operators.registry.store import Registry
    from sexton.recycle.pacing.policy import keys_per_second
    from sexton.recycle.pacing.store import PaceStore

    if (rate is not None or clear) and vault is None:
        raise WrongUsage("name a vault, as VAULT or INSTANCE/VAULT; see: sexton vault list")
    if (rate is not None) == clear and vault is not None:
        raise WrongUsage("say keys per second, e.g. 500/s, or --clear; exactly one of the two")
    with opened() as (settings, db):
        store = PaceStore(db)
        if vault is None:
            _show(store, Registry(db).vaults(), settings.s3.endpoint_url, as_json)
        elif rate is not None:
            cap = store.put_cap(vault, keys_per_second(rate), reason)
            typer.echo(
                f"{cap.instance}/{cap.vault} is deleted from at {cap.keys_per_second} keys/s at most, {WITHIN}; "
                f"until: sexton pace {cap.instance}/{cap.vault} --clear"
            )
        else:
            name, was = store.clear_cap(vault)
            typer.echo(f"{name} is not capped any more, {WITHIN}" if was else f"{name} had no cap")


def _show(store: "PaceStore", vaults: "Sequence[VaultSpec]", endpoint_url: str, as_json: bool) -> None:
    from sexton.recycle.pacing.policy import root

    caps = {(c.instance, c.vault): c for c in store.caps()}
    roots = {root(v, endpoint_url): (v.instance, v.name) for v in vaults}
    rows = []
    for f in store.figures():
        # Of vaults that share a beginning the longest is meant; none contains another.
        inside = max((r for r in roots if f.place.startswith(r)), key=len, default="")
        rows.append((f, roots.get(inside)))
    shown = {vault for _, vault in rows}
    unused = [c for key, c in caps.items() if key not in shown]
    if as_json:
        dump(
            {
                "places": [
                    {
                        "vault": "/".join(v) if v else None,
                        **f.model_dump(),
                        "cap": caps[v].keys_per_second if v in caps else None,
                    }
                    for f, v in rows
                ],
                "caps": [c.model_dump() for c in caps.values()],
            }
        )
        return
    lines = [_line(f, v, caps.get(v) if v else None) for f, v in rows]
    lines += [(f"{c.instance}/{c.vault}", "", "", "", f"{c.keys_per_second:,}", "", "", "") for c in unused]
    show("" if lines else "nothing was deleted yet, and no vault is capped", COLUMNS, lines)


def _line(f: "PlaceFigures", vault: tuple[str, str] | None, cap: "Cap | None") -> tuple[str, ...]:
    share = f"{100 * f.throttled / f.requests:.1f} %" if f.requests else "-"
    return (
        "/".join(vault) if vault else "",
        f.place,
        f"{f.keys_per_second:,}",
        f"{f.ceiling:,}" if f.ceiling else "-",
        f"{cap.keys_per_second:,}" if cap else "-",
        share,
        str(f.workers),
        stamp(f.throttled_at),
    )
