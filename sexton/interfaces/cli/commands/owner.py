"""`sexton owner`: which owners are installed, by which instances are connected."""

import typer

from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table

app = typer.Typer(help="Owners: what connects a database or a lake.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """Print the owners that are installed here.

    Each worker needs the owners of its instances. It needs no database.

    Example: sexton owner list
    """
    from sexton.owners.plugins import installed

    owners = [
        {
            "owner": name,
            "package": owner.package,
            "about": owner.plugin.about if owner.plugin is not None else "",
            "options": list(owner.plugin.options.model_fields) if owner.plugin is not None else [],
            "kinds": [kind.name for kind in owner.plugin.kinds] if owner.plugin is not None else [],
            "error": owner.error,
        }
        for name, owner in sorted(installed().items())
    ]
    if wants_json():
        emit_list(owners)
        return
    rows = [
        (o["owner"], o["package"] or "sexton", ", ".join(o["options"]), ", ".join(o["kinds"]), o["error"] or o["about"])
        for o in owners
    ]
    show_table("", ("owner", "package", "options", "its own kinds", "what it connects"), rows)
