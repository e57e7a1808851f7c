"""What each command prints with --json: its model, whether it is a list, and the keys beside the model's.

The test of docs/cli-schema.json reads this, and so do the tests that run the commands. No command imports it.
"""

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from pydantic import BaseModel, create_model
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from config.explain import SettingRow
from sexton.check import model as check
from sexton.insight import views
from sexton.insight.metrics.model import WalFigures
from sexton.insight.plan_review import PlanReview
from sexton.insight.views import Blocker
from sexton.interfaces.cli.commands import owner_operations
from sexton.interfaces.cli.commands.ducklake import LakeStatus
from sexton.interfaces.cli.doctor.finding import DoctorFinding
from sexton.interfaces.cli.json_output import Done
from sexton.interfaces.selftest.protection import SelfTest
from sexton.interfaces.selftest.race import Race
from sexton.kernel.message import Message
from sexton.operations.registry import operations
from sexton.operators.call_log.model import CallRecord
from sexton.operators.controls.model import Control
from sexton.operators.holds.model import Hold
from sexton.operators.registry.store import Instance
from sexton.protection.model import Protection
from sexton.recycle.model import RoundReport
from sexton.recycle.pacing.model import Cap, PlaceFigures
from sexton.recycle.pipeline.quarantined import Quarantined
from sexton.recycle.planning.estimate import Estimate
from sexton.recycle.planning.model import Plan, PlanRow, Shift
from sexton.recycle.rounds.row import RoundRow
from sexton.replication.binlog.messages import GcProgress, GcReport
from sexton.replication.binlog.model import Consumer, Log
from sexton.replication.binlog.sql.explain import LogExplanation
from sexton.replication.binlog.sql.figures import LogCounts
from sexton.replication.journal.model import Follower, JournalPage
from sexton.replication.replicas.model import BackendStanding, Replica
from sexton.runtime.temporal.schedules import ScheduleInfo
from sexton.runtime.temporal.versions import WorkerBuild
from sexton.storage.model import Probe, Undeleted
from sexton.wal.explanation import TopicExplanation
from sexton.wal.messages import PurgeProgress, PurgeReport, PurgeRoundProgress, TopicCounts
from sexton.wal.model import Purge, Topic


class JsonShape(NamedTuple):
    """What a command prints."""

    model: type[BaseModel] = Message
    more: Mapping[str, Any] = {}
    """Further keys of the object, or of each item → their types."""
    is_list: bool = False
    of_list: Mapping[str, Any] = {}
    """Further keys of the list → their types."""


def _fields(row: type) -> dict[str, Any]:
    """Return the keys of a named tuple."""
    return get_type_hints(row)


VAULT_KEYS = dict.fromkeys(("instance", "vault", "kind", "place", "endpoint", "versions", "proof"), str)
OWNER_KEYS = {"owner": str, "package": str, "about": str, "options": list[str], "kinds": list[str], "error": str}
EXPIRING = create_model("ExpiringToken", token=(str, ...), scope=(str, ...), expires_at=(int, ...))
PLACE = create_model("Place", __base__=PlaceFigures, vault=(str | None, ...), cap=(int | None, ...))
COPY = create_model("Copy", __base__=Replica, need=(int, ...))


def _of_result(result: type[BaseModel]) -> JsonShape:
    """Return the shape of an operation's result."""
    fields = result.model_fields
    if {"items", "more"} <= fields.keys():
        return JsonShape(get_args(fields["items"].annotation)[0], is_list=True)
    return JsonShape(result)


SHAPES: Mapping[str, JsonShape] = {
    **{name: _of_result(operation.result) for name, operation in operations().items()},
    "status": JsonShape(
        views.Overview,
        {
            "topics": WalFigures,
            "binlogs": LogCounts,
            "running": list[views.RunningWork],
            "expiring_tokens": list[EXPIRING],
        },
    ),
    "apply": JsonShape(RoundReport),
    "ducklake status": JsonShape(LakeStatus),
    "why": JsonShape(views.Story, is_list=True),
    "log": JsonShape(CallRecord, is_list=True),
    "blockers": JsonShape(Blocker, is_list=True),
    "doctor": JsonShape(more=_fields(DoctorFinding), is_list=True),
    "pace": JsonShape(more={"places": list[PLACE], "caps": list[Cap]}),
    "undelete": JsonShape(Undeleted, {"dry_run": bool}),
    **dict.fromkeys(owner_operations.commands(), JsonShape(more={"result": Any})),
    "instance list": JsonShape(Instance, {"roles": list[str]}, is_list=True),
    "owner list": JsonShape(more=OWNER_KEYS, is_list=True),
    "vault list": JsonShape(more=VAULT_KEYS | {"conditional": bool}, is_list=True),
    "vault probe": JsonShape(Probe),
    "round list": JsonShape(RoundRow, is_list=True),
    "round show": JsonShape(RoundRow, {"progress": views.RoundCounts | None}),
    "round run": JsonShape(RoundReport),
    "plan new": JsonShape(Plan, {"estimate": Estimate}),
    "plan list": JsonShape(PlanRow, is_list=True),
    "plan show": JsonShape(PlanReview),
    "plan marks": JsonShape(views.ListedMark, is_list=True, of_list={"next": str}),
    "plan reject": JsonShape(PlanRow),
    "marks list": JsonShape(views.ListedMark, is_list=True, of_list={"next": str}),
    "check run": JsonShape(check.CheckReport),
    "check list": JsonShape(check.Run, is_list=True),
    "check show": JsonShape(check.CheckReport),
    "check findings": JsonShape(check.Finding, is_list=True),
    "check repair": JsonShape(check.RepairResult, {"dry_run": bool, "awaits": str}),
    "schedules list": JsonShape(ScheduleInfo, is_list=True),
    "hold list": JsonShape(Hold, is_list=True),
    **dict.fromkeys(
        [f"hold add {scope}" for scope in ("instance", "table", "mark", "vault-prefix")],
        JsonShape(
            Hold, {"too_late": int, "blocks_now": int | None, "matches_now": int | None, "may_block": int | None}
        ),
    ),
    "lists show": JsonShape(
        create_model("ListEntry", **{n: (f.annotation, f) for n, f in Control.model_fields.items() if n != "kind"}),  # type: ignore[call-overload]
        {"list": str, "removable": bool},
        is_list=True,
    ),
    "quarantine list": JsonShape(Quarantined, is_list=True),
    "protection list": JsonShape(Protection, is_list=True),
    "protection register": JsonShape(Protection),
    "protection selftest": JsonShape(SelfTest, {"passed": bool}),
    "wal list": JsonShape(Topic, {"lost_regions": int, "lagging_regions": int}, is_list=True),
    "wal explain": JsonShape(TopicExplanation),
    "wal round run": JsonShape(TopicCounts),
    "wal round progress": JsonShape(PurgeRoundProgress),
    "check progress": JsonShape(check.CheckProgress),
    "doctor --print-grants": JsonShape(more={"s3": list[dict[str, Any]], "kafka": list[str], "postgresql": list[str]}),
    "wal progress": JsonShape(PurgeProgress),
    "wal purge": JsonShape(PurgeReport),
    "wal purge --dry-run": JsonShape(TopicExplanation),
    "wal purges": JsonShape(Purge, is_list=True),
    "binlog list": JsonShape(Log, {"kept": int, "first": int, "in_database_log": bool}, is_list=True),
    "binlog explain": JsonShape(LogExplanation),
    "binlog consumers": JsonShape(Consumer, is_list=True),
    "binlog gc": JsonShape(GcReport),
    "binlog progress": JsonShape(GcProgress),
    "binlog journal": JsonShape(JournalPage),
    "binlog followers": JsonShape(Follower, {"behind": int}, is_list=True),
    "replica list": JsonShape(Replica, {"faults": str}, is_list=True),
    "replica explain": JsonShape(more={"tablet": str, "need": int | None, "decides": str | None, "copies": list[COPY]}),
    "replica backends": JsonShape(BackendStanding, is_list=True),
    "contract test": JsonShape(Race),
    "worker builds": JsonShape(WorkerBuild, is_list=True),
    "settings show": JsonShape(more=_fields(SettingRow), is_list=True),
    "settings preview": JsonShape(Shift, is_list=True),
}
"""Command → its shape. ``Done`` is that of every other one."""
OTHERS = "(every other command)"
LINES = ("deletions", "log --after", "log --follow")
"""Commands that print stored rows as JSON lines."""


class _Schema(GenerateJsonSchema):
    """Generates schemas without titles."""

    def model_schema(self, schema: Any) -> Any:
        """Return the schema of a model."""
        result = super().model_schema(schema)
        for value in result.get("properties", {}).values():
            value.pop("title", None)
        return result


@cache
def schema() -> dict[str, Any]:
    """Return the published schema: ``commands`` → what each prints, ``$defs`` → the objects in it."""
    by_shape: dict[int, type[BaseModel]] = {}
    for path, shape in SHAPES.items():
        by_shape.setdefault(id(shape), _model(path, shape))
    models = {path: by_shape[id(shape)] for path, shape in SHAPES.items()} | {OTHERS: Done}
    unique = list(dict.fromkeys(models.values()))
    refs, definitions = models_json_schema([(m, "serialization") for m in unique], schema_generator=_Schema)
    commands = {
        path: _list_of(refs[model, "serialization"], SHAPES[path])
        if path in SHAPES and SHAPES[path].is_list
        else refs[model, "serialization"]
        for path, model in models.items()
    }
    return {"commands": commands, "$defs": definitions["$defs"]}


def _model(path: str, shape: JsonShape) -> type[BaseModel]:
    if not shape.more:
        return shape.model
    name = "".join(word.title() for word in path.replace("-", " ").split())
    fields: Any = {key: (of, ...) for key, of in shape.more.items()}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Field name .* shadows")  # a property that is printed too
        return create_model(f"{name}Json", __base__=shape.model, **fields)


def _list_of(item: Any, shape: JsonShape) -> dict[str, Any]:
    keys = {"items": {"type": "array", "items": item}, "more": {"type": "boolean"}}
    keys |= {key: {"type": {str: "string", int: "integer"}[of]} for key, of in shape.of_list.items()}
    return {"type": "object", "properties": keys, "required": list(keys)}
