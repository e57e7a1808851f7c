"""The file `config/sexton.toml` documents every setting with its default."""

import re
import tomllib

from pydantic import BaseModel

from config.settings import SettingRow, Settings, explain
from config.sources import PACKAGED
from tests.surroundings import NOWHERE


def _described() -> list[SettingRow]:
    return [row for row in explain() if not row.key.startswith("kinds.")]


def test_file_has_exactly_the_settings_with_their_defaults() -> None:
    parsed = tomllib.loads(PACKAGED.read_text())
    assert parsed["temporal"].pop("address") == "127.0.0.1:7233"  # tests have another default
    parsed["temporal"]["address"] = NOWHERE
    fields = {name: field.get_default() for name, field in Settings.model_fields.items() if name != "kinds"}
    defaults = {k: v.model_dump() if isinstance(v, BaseModel) else v for k, v in fields.items()}

    assert {k: v for k, v in parsed.items() if defaults.get(k) != v} == {
        k: v for k, v in defaults.items() if parsed.get(k) != v
    }, "write each setting of config/sections.py into config/sexton.toml, with its default"


def test_every_number_names_its_unit_and_its_floor() -> None:
    text = PACKAGED.read_text()

    for row in _described():
        if not row.bound.startswith("floor"):
            continue
        comment = re.search(rf"((?:^#.*\n)+){row.key.rpartition('.')[2]} = ", text, re.MULTILINE)
        assert comment, f"{row.key} has no comment above it"
        floor = re.search(r"floor (\d+)", row.bound)
        assert floor
        assert row.unit in comment[1], f"the comment above {row.key} lacks its unit"
        assert floor[1] in comment[1], f"the comment above {row.key} lacks its floor"


def test_every_key_has_a_line_of_explanation() -> None:
    lines = PACKAGED.read_text().splitlines()

    for number, line in enumerate(lines):
        if re.match(r"[a-z_]+ = ", line):
            assert lines[number - 1].startswith("# "), line
