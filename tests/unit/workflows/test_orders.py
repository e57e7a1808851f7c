"""Every order, signal and query that reaches a worker over Temporal has a line: why it deletes nothing more."""

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

    assert fields == {name: set(lines) for name, lines in ORDERS.items()}
    assert {line.split(":")[0] for lines in ORDERS.values() for line in lines.values()} == {"rows", "harmless"}


def test_h1_every_activity_class_is_in_the_table() -> None:
    classes = {name for name in vars(activities) if name.endswith("Activities")}

    assert classes == {name for name in activities.__all__ if name.endswith("Activities")}
    assert len(classes) == 7


def test_h1_each_signal_and_query_has_a_line() -> None:
    handlers = {name: handlers_of(cls) for name, cls in workflow_types().items()}

    assert handlers == {
        name: {handler: line.split(":")[0] for handler, line in lines.items()} for name, lines in HANDLERS.items()
    }
