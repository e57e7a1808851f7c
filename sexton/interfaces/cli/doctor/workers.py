"""Check the settings of the database, and compare the settings and builds of the workers that run."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from config.live import LiveSettings
    from sexton.runtime.workers.store import WorkerPresence

HERE = "this command"


def examine_settings(live: "LiveSettings") -> Iterator[DoctorFinding]:
    """Yield a finding about the settings that the database changes, if there are any."""
    ignored, stored = live.ignored(), live.rows()
    if ignored:
        todo = "set a value within its bounds (sexton settings set), or remove it (sexton settings unset)"
        detail = "; ".join(f"ignored: {entry.why}" for entry in ignored)
        yield DoctorFinding("WARN", "database settings", detail, todo)
    elif stored:
        keys = ", ".join(dict.fromkeys(row.key for row in stored))
        yield DoctorFinding("OK", "database settings", f"in force instead of environment and file: {keys}")


def examine_workers(
    workers: "Sequence[WorkerPresence]", own: Mapping[str, str], in_database: frozenset[str]
) -> Iterator[DoctorFinding]:
    """Yield findings about the workers that run, none where no worker runs.

    Args:
        workers: those that report.
        own: the settings of this process.
        in_database: keys that the database sets for all instances, so that no file matters.
    """
    if not workers:
        return
    yield DoctorFinding("OK", "workers", "; ".join(_described(w) for w in workers))
    builds = {w.build for w in workers}
    if len(builds) > 1:
        yield DoctorFinding(
            "WARN", "builds", f"workers of {len(builds)} builds run: {', '.join(sorted(builds))}", "restart the older"
        )
    settings = {w.worker: w.settings for w in workers} | {HERE: own}
    differences = [d for key in own if key not in in_database and (d := _difference(key, settings))]
    if differences:
        todo = "use one settings file everywhere and restart, or set it for all workers: sexton settings set KEY VALUE"
        yield DoctorFinding("WARN", "worker settings", "; ".join(differences), todo)


def _described(worker: "WorkerPresence") -> str:
    served = f", metrics at {worker.metrics}" if worker.metrics else ""
    build = f" {worker.build}" if worker.build else ""
    return f"{worker.worker} ({worker.role}{build}{served})"


def _difference(key: str, settings: Mapping[str, Mapping[str, str]]) -> str:
    """Return which processes use which value of a setting; empty where all use the same."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, values in settings.items():
        users[values.get(key, "unknown")].append(name)
    if len(users) == 1:
        return ""
    return f"{key}: " + ", ".join(f"{value} in {' and '.join(names)}" for value, names in users.items())
