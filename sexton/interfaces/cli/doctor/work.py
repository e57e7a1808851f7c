"""Check the vaults (does each belong to this deployment?), and whether anything halts an instance."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.interfaces.cli.context import control_store
from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database


def examine_work(settings: "Settings") -> Iterator[DoctorFinding]:
    """Yield findings about vaults and halts."""
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
        return DoctorFinding("FAIL", "vaults", "; ".join(faults), "nothing is deleted in them; see: sexton vault list")
    return DoctorFinding(
        "OK", "vaults", f"{len(specs)}, each proved to belong to this deployment" if specs else "none registered"
    )


def _halted(settings: "Settings", db: "Database") -> DoctorFinding:
    from sexton.operators.controls.policy import halt
    from sexton.operators.registry.store import Registry

    names = [i.id for i in Registry(db).instances()]
    with db.read() as c:
        all_controls, now = control_store(settings, db).all_in(c), db.now(c)
    halts = {name: halt(all_controls, name, now) for name in names}
    details = [f"{name}: {h.why}" for name, h in halts.items() if h is not None]
    if details:
        return DoctorFinding("WARN", "halted", "; ".join(details), "if this is not intended, see: sexton blockers")
    return DoctorFinding("OK", "halted", "no instance is stopped, excluded by a list, or outside its windows")
