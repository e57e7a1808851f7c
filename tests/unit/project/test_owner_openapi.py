"""The published description of what an owner serves is that of the code. `--write` renews the file."""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sexton.owners import caller
from sexton.owners.http import owner

FILE = Path(__file__).parents[3] / "docs" / "owner-openapi.json"
CALLS: tuple[tuple[str, str, type[BaseModel] | None, type[BaseModel] | None], ...] = (
    ("get", "/v1/garbage", None, owner.GarbageAnswer),
    ("post", "/v1/fence", owner.FenceRequest, owner.FenceAnswer),
    ("post", "/v1/forget", owner.ForgetRequest, None),
    ("post", "/v1/live/search", owner.LiveSearch, owner.LiveSearchAnswer),
    ("get", "/v1/live/count", None, owner.LiveCount),
    ("get", "/v1/live", None, owner.LiveFiles),
    ("post", "/v1/live/records", owner.RecordsRequest, owner.LiveFiles),
    ("get", "/v1/inventory", None, caller.InventoryAnswer),
)
PROMISES = {
    "/v1/garbage": "The entries of the list behind a position, in its order. The list only grows at its end.",
    "/v1/fence": "From the answer `fenced` on, nothing brings the mark back: no undrop, no restart. May be repeated.",
    "/v1/forget": "The files of these marks are deleted; the owner may remove its records. May be sent again.",
    "/v1/live/search": "Which of these marks name, cover or touch a live file. Each mark must be searched.",
    "/v1/live/count": "How many objects are live now.",
    "/v1/live": "Every file that must exist (`live`), and every other one that may: dropped, or being written.",
    "/v1/live/records": "The files of these records now, without those that are gone.",
    "/v1/inventory": "The next ids of live records of a kind behind `after`, in the order of their bytes, fewer than "
    "`limit` only at the end. Asked only if the instance has a front end, which serves the same of its memory.",
}
PAGED = {"/v1/garbage": {}, "/v1/live": {}, "/v1/inventory": {"kind": "string"}}


def generated() -> str:
    models = [m for _, _, asked, answer in CALLS for m in (asked, answer) if m is not None]
    place = "#/components/schemas/{model}"
    _, schemas = models_json_schema([(m, "validation") for m in dict.fromkeys(models)], ref_template=place)
    paths = {path: {method: _operation(path, asked, answer)} for method, path, asked, answer in CALLS}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "What an owner serves to Sexton", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }
    return json.dumps(document, indent=1) + "\n"


def _operation(path: str, asked: type[BaseModel] | None, answer: type[BaseModel] | None) -> dict[str, Any]:
    operation: dict[str, Any] = {"description": PROMISES[path], "responses": {"200": {"description": "done"}}}
    if answer is not None:
        operation["responses"]["200"] |= {"description": "the answer", "content": _content(answer)}
    if asked is not None:
        operation["requestBody"] = {"required": True, "content": _content(asked)}
    if path in PAGED:
        kinds = PAGED[path] | {"after": "string", "limit": "integer"}
        operation["parameters"] = [{"name": n, "in": "query", "schema": {"type": t}} for n, t in kinds.items()]
    return operation


def _content(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


def test_the_published_description_is_that_of_the_code() -> None:
    assert FILE.read_text() == generated(), "renew it: python -m tests.unit.project.test_owner_openapi --write"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(generated())
