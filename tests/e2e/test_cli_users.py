"""The command `sexton user` manages users and passwords without Temporal."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sexton.database.engine import Database
from sexton.operators.access.errors import NotAuthorized, Unauthenticated
from sexton.operators.access.login import Logins
from sexton.operators.access.sql.tokens import TokenStore
from sexton.operators.access.sql.users import UserStore
from sexton.operators.call_log.store import CallStore
from tests.e2e.conftest import Run, settings

PASSWORD, ANOTHER = "a-horse-of-correct-batteries", "another-staple-altogether"
TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
ADD = ("user", "add", "ada", "--scope", "operate@*")


def test_call_log_has_users_added_and_removed(offline: Run, shop: Database) -> None:
    added = offline(*ADD, "--password-stdin", typed=f"{PASSWORD}\n")
    again = offline(*ADD, "--password-stdin", typed=f"{ANOTHER}\n")
    token, text = Logins(shop, CallStore(shop)).login("ada", PASSWORD, "here")
    shown, listed = offline("user", "list", "--json"), offline("token", "list")
    removed, removed_again = offline("user", "remove", "ada"), offline("user", "remove", "ada")

    assert [p.returncode for p in (added, again, removed, removed_again)] == [0, 1, 0, 1]
    assert "sexton user password ada" in again.stderr
    assert [(u["name"], u["scope"]) for u in json.loads(shown.stdout)["items"]] == [("ada", "operate@*")]
    assert (token.id in listed.stdout, "hash" in shown.stdout) == (True, False)
    with pytest.raises(Unauthenticated, match="revoked"):
        TokenStore(shop).authenticate(f"Bearer {text}")
    assert "removed by" in offline("user", "list").stdout
    calls = [(c.action, c.subject, c.outcome, c.reason) for c in reversed(CallStore(shop).last(9))]
    assert calls == [
        ("user add", "ada", "ok", "scope operate@*"),
        ("user add", "ada", "USER_EXISTS", "scope operate@*"),
        ("token", "operate@*", "ok", ""),
        ("user remove", "ada", "ok", ""),
        ("user remove", "ada", "UNKNOWN_USER", ""),
    ]
    assert PASSWORD not in "".join(p.stdout + p.stderr for p in (added, again, shown, removed))


def test_new_password_revokes_the_old_one_and_its_tokens(offline: Run, shop: Database) -> None:
    offline(*ADD, "--password-stdin", typed=f"{PASSWORD}\n")
    _, text = Logins(shop, CallStore(shop)).login("ada", PASSWORD, "here")
    changed = offline("user", "password", "ada", "--password-stdin", typed=ANOTHER)
    of_nobody = offline("user", "password", "bob", "--password-stdin", typed=ANOTHER)

    assert (changed.returncode, of_nobody.returncode) == (0, 1)
    with pytest.raises(Unauthenticated):
        TokenStore(shop).authenticate(f"Bearer {text}")
    with pytest.raises(NotAuthorized):
        Logins(shop, CallStore(shop)).login("ada", PASSWORD, "here")
    assert Logins(shop, CallStore(shop)).login("ada", ANOTHER, "here")


@pytest.mark.parametrize("typed", ["", "\n", "elevenchars\n", "Administrator\n"])
def test_unsuitable_password_creates_no_user(offline: Run, shop: Database, typed: str) -> None:
    refused = offline("user", "add", "administrator", "--scope", "admin", "--password-stdin", typed=typed)

    assert refused.returncode == 1
    assert "password" in refused.stderr
    assert json.loads(offline("user", "list", "--json").stdout)["items"] == []


def test_password_needs_a_terminal_or_stdin(offline: Run, shop: Database) -> None:
    refused = offline(*ADD)

    assert (refused.returncode, "--password-stdin" in refused.stderr) == (64, True)


def test_malformed_name_or_scope_is_refused(offline: Run, shop: Database) -> None:
    name = offline("user", "add", "Ada", "--scope", "read", "--password-stdin", typed=PASSWORD)
    scope = offline("user", "add", "ada", "--scope", "root", "--password-stdin", typed=PASSWORD)

    assert (name.returncode, scope.returncode) == (1, 1)
    assert CallStore(shop).last(9) == []


@pytest.mark.parametrize(("second", "code"), [(PASSWORD, 0), (ANOTHER, 130)])
def test_terminal_asks_for_a_password_twice_and_hides_it(
    tmp_path: Path, shop: Database, second: str, code: int
) -> None:
    command = [sys.executable, "-c", TERMINAL, sys.executable, "-m", "sexton", *ADD]
    given, pipe = os.environ | settings(tmp_path, "127.0.0.1:1"), subprocess.PIPE
    # The space behind a prompt comes when the terminal listens: what is typed before it is thrown away.
    answers = [(b"ada: ", PASSWORD), (b"confirmation: ", second), *([(b"ada: ", "\x03")] if code else [])]
    seen = b""
    with subprocess.Popen(command, env=given, cwd=tmp_path, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for prompt, answer in answers:
                while prompt not in seen.rpartition(b"\n")[2]:
                    piece = os.read(process.stdout.fileno(), 4_096)
                    assert piece, seen
                    seen += piece
                process.stdin.write(f"{answer}\n".encode())
                process.stdin.flush()
            while piece := os.read(process.stdout.fileno(), 4_096):
                seen += piece
        except BaseException:
            process.kill()  # else it is waited for
            raise

    assert process.returncode == code, seen
    assert PASSWORD.encode() not in seen
    assert [u.name for u in UserStore(shop).all()] == ([] if code else ["ada"])
