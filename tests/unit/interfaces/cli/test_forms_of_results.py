"""Every form of a result names values that its items have."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel

from sexton.interfaces.cli.render.tables import COMPUTED, FORMS, LISTS
from sexton.operations.registry import operations
from sexton.replication.binlog.messages import GcReport
from sexton.wal.messages import PurgeReport

REPORTS = {"wal purge": PurgeReport, "binlog gc": GcReport}
"""Operations whose command prints the report of what they started."""


def subclasses(of: Any) -> Iterator[Any]:
    for cls in of.__subclasses__():
        yield cls
        yield from subclasses(cls)


def models_in(annotation: Any) -> list[Any]:
    """Return the models that an annotation names, perhaps as one of several or as an item."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in models_in(part)]


def shown_by(form: str) -> Any:
    """Return the class of what a form shows."""
    if form in LISTS:
        return models_in(operations()[form].result.model_fields["items"].annotation)[0]
    if form in operations():
        return REPORTS.get(form) or operations()[form].result
    return next(cls for cls in subclasses(BaseModel) if cls.__name__ == form)


def has(cls: Any, path: str) -> bool:
    """Return whether objects of a class have such a value."""
    name, _, rest = path.partition(".")
    if (field := cls.model_fields.get(name)) is None:
        return isinstance(getattr(cls, name, None), property)
    return not rest or any(has(model, rest) for model in models_in(field.annotation))


@pytest.mark.parametrize("form", [*LISTS, *FORMS])
def test_a_form_names_only_what_there_is(form: str) -> None:
    cls = shown_by(form)
    words = (LISTS[form][1] if form in LISTS else FORMS[form]).split()
    unknown = [word for word in words if not has(cls, word.rpartition("=")[2])]

    assert not unknown or form in COMPUTED, unknown
