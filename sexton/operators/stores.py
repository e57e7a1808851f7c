"""The rows of operators, one store per package."""

from collections.abc import Sequence
from typing import NamedTuple

from sexton.database.engine import Database
from sexton.operators.call_log import CallStore
from sexton.operators.controls.model import Control
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.store import HoldStore
from sexton.operators.registry.store import Registry


class OperatorStores(NamedTuple):
    """What operators have registered and ordered, and the log of their calls."""

    registry: Registry
    controls: ControlStore
    holds: HoldStore
    calls: CallStore


def operator_stores(db: Database, controls: Sequence[Control] = ()) -> OperatorStores:
    """Return the stores over one database; ``controls``: lists and windows of the settings."""
    return OperatorStores(Registry(db), ControlStore(db, controls), HoldStore(db), CallStore(db))
