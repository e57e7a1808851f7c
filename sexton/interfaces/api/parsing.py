"""Parse and validate large bodies, in a thread, within bounds.

Both steps hold Python's lock, so their time is bounded by the number of values, and one body is parsed at a time. Not
one step by ``validate_json``: an error there copies the whole input, once for each of its mistakes.
"""

import json
import re
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError

from sexton.kernel.errors import BadInput

SMALL_BYTES = 64 << 10
"""Smaller bodies are parsed where they arrive, within a few ms."""
MAX_SEPARATORS = 1_500_000
"""Commas and colons outside strings. A heartbeat of 50,000 regions has about 600,000."""
MAX_MISTAKES = 1_000
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def parse(body: bytes, adapter: TypeAdapter[Any]) -> Any:
    """Return the validated value of a body.

    Raises:
        BadInput: it has too many values, or too many mistakes to list them.
        RequestValidationError: it is not JSON, or not valid.
    """
    if _separators(body) > MAX_SEPARATORS and _separators(_STRING.sub(b"", body)) > MAX_SEPARATORS:
        raise BadInput("the body has too many values; send it in several requests")
    value = load(body)
    try:
        return adapter.validate_python(value)
    except ValidationError as e:
        if e.error_count() > MAX_MISTAKES:
            raise BadInput(f"the body has {e.error_count()} mistakes; see /v1/openapi.json") from None
        mistakes = e.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([dict(m) | {"loc": ("body", *m["loc"])} for m in mistakes]) from None


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


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b":")
