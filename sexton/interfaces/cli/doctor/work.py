"""What the doctor asks the database about the work: are the vaults ours, and does anything halt an instance?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.interfaces.cli.context import controls
from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database


def examine_work(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield findings about vaults, halts and metrics."""
    from sexton.database.engine import Database

    db = Database.open(settings.database_url)
    try:
        yield _vaults(settings, db)
        yield _halted(settings, db)
    finally:
        db.close()


def _vaults(settings: "Settings", db: "Database") -> DoctorFinding:
    from sexton.operators.registry.store import Registry
    from sexton.storage.port import VaultFault
    from sexton.storage.vaults import ProvenVaults

    registry = Registry(db)
    specs = registry.vaults()
    deployment, endpoint = settings.require_deployment(), settings.s3.endpoint_url
    vaults = ProvenVaults(registry.vault, deployment, endpoint, knows_round=registry.knows_round)
    faults = []
    for spec in specs:
        try:
            vaults.get(spec.instance, spec.name)
        except VaultFault as e:
            faults.append(f"{spec.instance}/{spec.name}: {e.reason}")
    if faults:
        return DoctorFinding("FAIL", "vaults", "; ".join(faults), "nothing in them is deleted; see: sexton vault list")
    return DoctorFinding("OK", "vaults", f"{len(specs)}, each proved to be ours" if specs else "none registered")


def _halted(settings: "Settings", db: "Database") -> DoctorFinding:
    from sexton.operators.controls.policy import halt
    from sexton.operators.registry.store import Registry

    names = [i.id for i in Registry(db).instances()]
    with db.read() as c:
        given, now = controls(settings, db).all_in(c), db.now(c)
    told = {i: found.why for i in names if (found := halt(given, i, now)) is not None}
    if told:
        detail = "; ".join(f"{i}: {why}" for i, why in told.items())
        return DoctorFinding("WARN", "halted", detail, "meant so? see: sexton holds")
    return DoctorFinding("OK", "halted", "no instance is stopped, left out, or outside its windows")
