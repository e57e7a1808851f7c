"""Parse and validate large bodies, in a thread, within bounds.

Both steps hold Python's lock, so their time is bounded by the number of values, and one body is parsed at a time. Other
threads run between the slices of a long list while it is validated. Not one step by ``validate_json``: an error there
copies the whole input, once for each of its mistakes.
"""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, get_args, get_origin

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, FailFast, TypeAdapter, ValidationError
from starlette.requests import HTTPConnection

from sexton.kernel.errors import BadInput

SMALL_BYTES = 64 << 10
"""Smaller bodies are parsed where they arrive, within a few ms."""
MAX_SEPARATORS = 1_500_000
"""Commas, colons and opening brackets outside strings. A heartbeat of 50,000 regions has about 800,000."""
MAX_MISTAKES = 1_000
SLICE_ITEMS = 1_000
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


class BodyValidator:
    """Validates bodies of one type. Of a long list of objects it names the first mistake only."""

    def __init__(self, annotation: Any) -> None:
        self._whole = TypeAdapter[Any](annotation)
        fields = annotation.model_fields if isinstance(annotation, type) and issubclass(annotation, BaseModel) else {}
        self._lists = {
            name: _slices_of(item) for name, field in fields.items() if (item := _item_of(field.annotation)) is not None
        }

    def validate(self, value: Any) -> Any:
        """Return the validated value; replace objects in its lists. Raise ``RequestValidationError``."""
        for name, adapter in self._lists.items():
            items = value.get(name) if isinstance(value, dict) else None
            if isinstance(items, list) and len(items) > SLICE_ITEMS:
                for at in range(0, len(items), SLICE_ITEMS):
                    items[at : at + SLICE_ITEMS] = _validated(adapter, items[at : at + SLICE_ITEMS], name, at)
        return _validated(self._whole, value)


def parse(body: bytes, validator: BodyValidator) -> Any:
    """Return the validated value of a body.

    Raises:
        BadInput: it has too many values, or too many mistakes to list them.
        RequestValidationError: it is not JSON, or not valid.
    """
    if _separators(body) > MAX_SEPARATORS and (
        body.count(b'"') > 2 * MAX_SEPARATORS or _separators(_STRING.sub(b"", body)) > MAX_SEPARATORS
    ):
        raise BadInput("the body has too many values; send it in several requests")
    with _collector_paused():
        return validator.validate(load(body))


def load(body: bytes) -> Any:
    """Return the value of a body, not validated.

    Raises:
        BadInput: it is not UTF-8, is nested too deeply, or has a number of thousands of digits.
        RequestValidationError: it is not JSON.
    """
    try:
        return json.loads(body)
    except json.JSONDecodeError as e:
        raise RequestValidationError(
            [{"type": "json_invalid", "loc": ("body", e.pos), "msg": f"JSON decode error: {e.msg}"}]
        ) from None
    except (UnicodeDecodeError, RecursionError):
        raise BadInput("the body is not JSON in UTF-8, or is nested too deeply") from None
    except ValueError:  # Python's limit of digits
        raise BadInput("a number in the body has too many digits; no number needs more than 19") from None


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python from searching for cycles, which holds its lock the longer the more values there are: they have none.

    Afterwards the values count as old, so that they are not searched as new ones.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def _separators(text: bytes) -> int:
    return sum(text.count(separator) for separator in (b",", b":", b"{", b"["))


def _item_of(annotation: Any) -> type[BaseModel] | None:
    """Return the type of the objects that a field lists."""
    item = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return item if isinstance(item, type) and issubclass(item, BaseModel) else None


def _slices_of(item: Any) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[tuple[item, ...], FailFast()])


def _validated(adapter: TypeAdapter[Any], value: Any, name: str = "", first: int = 0) -> Any:
    """Return a validated value: a body, or a slice of its list ``name`` that begins at ``first``."""
    try:
        return adapter.validate_python(value)
    except ValidationError as e:
        if e.error_count() > MAX_MISTAKES:
            raise BadInput(f"the body has {e.error_count()} mistakes; see /v1/openapi.json") from None
        mistakes = e.errors(include_url=False, include_context=False, include_input=False)
        places = [(name, first + int(loc[0]), *loc[1:]) if name else loc for loc in (m["loc"] for m in mistakes)]
        located = [dict(m) | {"loc": ("body", *place)} for m, place in zip(mistakes, places, strict=True)]
        raise RequestValidationError(located) from None


def stated_length(request: HTTPConnection) -> int | None:
    """Return the length of the body as its head has it; None: unknown, because it comes in chunks."""
    if "transfer-encoding" in request.headers:
        return None
    length = request.headers.get("content-length", "0")
    return int(length) if length.isdecimal() else None
