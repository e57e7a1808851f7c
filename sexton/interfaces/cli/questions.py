"""What a command asks before it does something that cannot be undone, unless it has --yes; it prints first what is."""

from collections.abc import Callable, Mapping

import typer

from sexton.insight.wording import quantity
from sexton.interfaces import questions
from sexton.interfaces.cli.output import say, wants_json
from sexton.interfaces.questions import Question, Values, instance_of
from sexton.kernel.errors import WrongUsage
from sexton.operations.registry import Call


def ask(name: str, call: Call, values: Values, *, yes: bool) -> None:
    """Print what an operation would do, and ask before it, if anything must be confirmed and ``yes`` was not given."""
    question = QUESTIONS[name](call, values) if name in QUESTIONS else None
    if question is None:
        return
    if wants_json() and not yes:
        raise WrongUsage("--json cannot ask for confirmation; review what it does, then add --yes")
    if not wants_json():
        say(*question.lines)
    if not yes:
        typer.confirm(question.text, abort=True, err=True)


def _apply(call: Call, values: Values) -> Question:
    from sexton.interfaces.cli.render.rounds import show_plan
    from sexton.operations.plans import check_apply

    plan = check_apply(call, values["plan"])
    if not wants_json():
        show_plan(plan, call.deployment.cost(plan))
    lines = [f"{hold.kept} blocks {hold.what}" for hold in call.stores.holds.active(plan.instance)]
    if estimated := [kind for kind in plan.kinds if kind.estimated]:
        prefixes = quantity(sum(kind.prefixes for kind in estimated), "prefix", "prefixes")
        objects = quantity(sum(kind.objects for kind in estimated), "object")
        lines.append(f"it will list {prefixes} first, and delete every object there; the estimate is {objects}")
    return Question(f"Delete these files of {plan.instance} permanently?", tuple(lines))


def _repair(call: Call, values: Values) -> Question | None:
    from sexton.operations.checks import repair

    if values["dry_run"]:
        return None
    result = repair(call, **(dict(values) | {"instance": instance_of(call, values), "dry_run": True}))
    if not result.found:
        return None
    awaits = f"no round will delete orphans before an operator has applied a plan with them: {result.awaits}"
    what = "Mark {} for deletion?" if result.what == "orphans" else "Undelete {}?"
    counted = quantity(result.found, "orphan" if result.what == "orphans" else "lost object")
    return Question(what.format(counted), (awaits,) if result.awaits else ())


def _setting(call: Call, values: Values) -> Question | None:
    from sexton.interfaces.cli.render.results import show
    from sexton.runtime import setting_changes

    change = setting_changes.preview(call.deployment, values["key"], values.get("value"), values["instance"] or "")
    if not wants_json():
        show("settings preview", change, values)
    return Question(f"Change {change.key}?") if change.deletes_more else None


QUESTIONS: Mapping[str, Callable[[Call, Values], Question | None]] = {
    **questions.QUESTIONS,
    "apply": _apply,
    "check repair": _repair,
    "settings set": _setting,
    "settings unset": _setting,
}
"""Operation → the question; None: none is needed."""
