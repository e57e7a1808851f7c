"""Every order, signal and query that reaches a worker over Temporal has a line: why it deletes nothing more."""

from collections.abc import Mapping

import activities
from tests.support.orders import (
    HANDLERS,
    ORDERS,
    fields_of_order,
    handlers_of,
    registered_activities,
    workflow_types,
)


def test_h1_each_field_of_each_order_has_a_line() -> None:
    fields = {name: fields_of_order(method) for name, method in registered_activities().items()}

    expected = {name: set(lines) for name, lines in ORDERS.items()}
    assert _differences(fields, expected) == {}, "correct ORDERS in tests/support/orders.py: code, then table"
    assert {line.split(":")[0] for lines in ORDERS.values() for line in lines.values()} == {"rows", "harmless"}


def test_h1_every_activity_class_is_in_the_table() -> None:
    classes = {name for name in vars(activities) if name.endswith("Activities")}

    assert classes == {name for name in activities.__all__ if name.endswith("Activities")}
    assert len(classes) == 7


def test_h1_each_signal_and_query_has_a_line() -> None:
    handlers = {name: handlers_of(cls) for name, cls in workflow_types().items()}

    expected = {name: {h: line.split(":")[0] for h, line in lines.items()} for name, lines in HANDLERS.items()}
    assert _differences(handlers, expected) == {}, "correct HANDLERS in tests/support/orders.py: code, then table"


def _differences(in_code: Mapping[str, object], in_table: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    names = in_code.keys() | in_table.keys()
    pairs = {name: (in_code.get(name), in_table.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
