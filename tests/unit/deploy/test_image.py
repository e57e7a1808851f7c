"""The image is built from locked wheels, has no secrets, and its processes are not root."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.support.chart import DEPLOY

ROOT = Path(__file__).parents[3]
TEXT = (DEPLOY / "image" / "Dockerfile").read_text()


def _stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage, with continued lines joined."""
    stages: dict[str, list[tuple[str, str]]] = {"": []}
    stage = ""
    for line in re.sub(r"\\\n\s*", " ", TEXT).splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, stage = rest.partition(" AS ")
            stages[stage] = [("FROM", base)]
        else:
            stages[stage].append((word, rest))
    return stages


def _inherited(stage: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage after those of the stages that it is built from."""
    stages = _stages()
    instructions = stages[stage]
    base = instructions[0][1]
    return (_inherited(base) if base in stages else []) + instructions


def test_stages_are_the_two_images_and_their_builds() -> None:
    bases = [rest.partition("=")[2] for word, rest in _stages()[""] if word == "ARG"]

    assert list(_stages()) == ["", "build", "build-spark", "runtime", "spark", "sexton"]
    assert bases == ["python:3.13-slim-bookworm"]  # pinned by its tag


def test_images_run_as_the_user_of_the_chart_and_not_as_root() -> None:
    uid = re.search(r"runAsUser: (\d+)", (DEPLOY / "helm/sexton/templates/_helpers.tpl").read_text())
    assert uid
    assert int(uid[1]) > 0

    for stage in ("sexton", "spark"):
        assert [rest for word, rest in _inherited(stage) if word == "USER"][-1] == f"{uid[1]}:{uid[1]}"
        assert [rest for word, rest in _inherited(stage) if word == "ENTRYPOINT"] == ['["sexton"]']


def test_nothing_comes_from_the_network_unlocked() -> None:
    assert "--require-hashes -r requirements.lock" in TEXT
    assert not re.search(r"^ADD |https?://|ghp_|index-url", TEXT, re.MULTILINE)
    installs = [line for line in re.split(r"\n|&&", TEXT) if "pip install" in line or "pip wheel" in line]
    assert len(installs) == 4
    assert [i for i in installs if "--no-index" not in i and "--no-deps" not in i] == []


def test_extras_exist_and_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "requirements.lock").read_text()
    extras = {extra for names in re.findall(r"\)\[([\w,]+)\]", TEXT) for extra in names.split(",")}

    assert extras == {"api", "backend", "console", "kafka", "spark"}
    needed = [re.split(r"[\[<>=]", r)[0] for extra in extras for r in project["optional-dependencies"][extra]]
    assert [name for name in needed if not re.search(rf"^{name}==", lock, re.MULTILINE)] == []


def test_the_builder_gets_what_the_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lines = (DEPLOY / "image" / "Dockerfile.dockerignore").read_text().splitlines()
    admitted = [line[1:] for line in lines if line.startswith("!")]

    assert lines[1] == "*"
    needed = [*project["tool"]["importlinter"]["root_packages"], *project["project"]["license-files"]]
    needed += [project["project"]["readme"], "pyproject.toml", "requirements.lock", "docs"]
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed += [hook["path"].partition("/")[0] for hook in wheel.get("hooks", {}).values()]
    assert [name for name in needed if not any(fnmatch(name, pattern) for pattern in admitted)] == []
