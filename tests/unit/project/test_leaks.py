"""The search for secrets finds a secret anywhere in a file."""

from pathlib import Path

import pytest

from tests.support import leaks

TOKEN = f"sxt_{'0' * 12}_{'a' * 43}"


@pytest.mark.parametrize("before", [0, 5, leaks.PIECE - 30, leaks.PIECE])
@pytest.mark.parametrize("secret", ["0123456789abcdef0123456789abcdef", TOKEN])
def test_secret_is_found_anywhere_in_a_file(tmp_path: Path, before: int, secret: str) -> None:
    (tmp_path / f"{leaks.MADE}-1").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "clean.log").write_text("nothing of it, sxt_ neither\n")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "some.db").write_bytes(b"." * before + secret.encode() + b"." * 100)

    secrets, size, places = leaks.search(tmp_path)

    assert (secrets, [f.partition(":")[0] for f in places]) == (1, ["dir/some.db"])
    assert size > before


def test_run_without_a_search_stores_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(leaks.VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    leaks.record_secret("secret")
    leaks.record_output("api", b"text")

    assert list(tmp_path.iterdir()) == []
