"""Settings and where they come from, and what another value would change."""

import re
from typing import Annotated

from pydantic import Field, StringConstraints

from config.explain import SettingRow, is_per_instance
from config.live import explain_live
from sexton.kernel.message import Page, in_units
from sexton.kernel.printable import PRINTABLE
from sexton.operations.fields import Covered, Flag, Remark
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.runtime import setting_changes
from sexton.runtime.setting_changes import SettingChange

Key = Annotated[
    str, Flag(shown="KEY"), Field(max_length=100, description="A key that `settings show` marks as changeable.")
]
Value = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=100, pattern=PRINTABLE),
    Field(description="The value, as in an environment variable; seconds also as 7d, bytes as 1.5 GiB."),
]
NUMBER = re.compile(r"[0-9._eE+-]+( ?([smhdw]|([KMGT]i)?B))?")


class SettingList(Page[SettingRow]):
    """Settings in the order of their sections. ``ignored``: why stored values are not in force."""

    ignored: tuple[str, ...]


@operation("settings show", "GET /v1/settings", Grant.READ, READS)
def settings(call: Call, *, instance: Covered = None) -> SettingList:
    """Print every setting in force and its source; of one instance, those that may differ between instances.

    With value, unit, floor and default; passwords are masked. A value that `settings set` stored in the database takes
    precedence over those of environment and file, which are printed beside it.

    Example: sexton settings show --json
    """
    live, scope = call.deployment.live, instance or ""
    rows = explain_live(live, scope, call.stores.setting_rows.now())
    shown = (row for row in rows if not scope or is_per_instance(row.key))
    ignored = (entry.why for entry in live.ignored() if not scope or entry.row.instance in ("", scope))
    return SettingList(items=tuple(shown), ignored=tuple(ignored))


@operation("settings preview", "GET /v1/settings/{key}/preview", Grant.READ, READS)
def preview(
    call: Call,
    key: Key,
    value: Annotated[
        str | None, Field(max_length=100, description="Without it: that of environment, file or default.")
    ] = None,
    *,
    instance: Covered = None,
) -> SettingChange:
    """Print which marks another value makes due, or no longer due, in each instance. Changes nothing.

    Example: sexton settings preview recycle.compacted_rowset_retention_seconds 600
    """
    return setting_changes.preview(call.deployment, key, value, instance or "")


@operation(
    "settings set",
    "PUT /v1/settings/{key}",
    Grant.OPERATE,
    # A value that is no number could be a secret in the wrong place.
    Logged(lambda key, value, **_: f"{key}={value}" if NUMBER.fullmatch(value) else key, asks=True),
)
def set_setting(call: Call, key: Key, value: Value, *, instance: Covered = None, reason: Remark = "") -> SettingChange:
    """Change a setting for all workers, without a restart; they use it within 5 s. What it changes: settings preview.

    Bounds are those of the settings file. A plan that was made before is not changed.

    Example: sexton settings set recycle.retention_seconds 7d --instance shop
    """
    change = setting_changes.preview(call.deployment, key, value, instance or "")
    number = str(in_units(in_units(value, "seconds"), "bytes"))  # the check above refused a wrong unit
    call.stores.setting_rows.put(key, number, instance or "", reason, call.by)
    call.deployment.live.read_again()
    return change.model_copy(update={"done": True})


@operation("settings unset", "DELETE /v1/settings/{key}", Grant.OPERATE, Logged("{key}", asks=True))
def unset_setting(call: Call, key: Key, *, instance: Covered = None) -> SettingChange:
    """Remove a setting from the database: environment, file and default apply again. Repeatable.

    Example: sexton settings unset recycle.retention_seconds --instance shop
    """
    scope = instance or ""
    rows = call.deployment.live.rows()
    scopes = {
        r.instance for r in rows if r.key == key and (not r.instance or call.caller.permits(Grant.READ, r.instance))
    }
    change = setting_changes.preview(call.deployment, key, None, scope)
    removed = call.stores.setting_rows.remove(key, scope)
    call.deployment.live.read_again()
    return change.model_copy(update={"done": removed, "elsewhere": tuple(sorted(scopes - {scope}))})
