"""A client cannot make the API parse for long what it sends within one packet."""

import json
import logging
import re
import socket

import pytest

from sexton.interfaces.api import http_protocol, rare_warning
from sexton.interfaces.api.rare_warning import RareWarning
from tests.integration.interfaces.api.conftest import Ask
from tests.servers.api import Api

CHUNKED = b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_body_in_tiny_chunks_is_refused(api: Api, ask: Ask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), socket.create_connection(api.address, timeout=30) as client:
        client.sendall(b"POST /v1/stop HTTP/1.1\r\n" + CHUNKED + b"1\r\nx\r\n" * 5_000)
        answer = client.makefile("rb").read()
        ask("GET", "/v1/status")  # after which the application has tried to answer, too

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The chunks of the body are too small" in answer
    assert caplog.messages == []


def test_a_body_in_ordinary_chunks_is_accepted(ask: Ask) -> None:
    body = json.dumps({"job": "copy:1", "owner": "ada", "objects": ["disk/data/a.dat"] * 5_000}).encode()
    chunks = [body[at : at + 600] for at in range(0, len(body), 600)]
    registered = ask("POST", "/v1/instances/shop/protections", chunks=chunks)

    assert registered.status_code == 201


SHORT_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
CLOSING = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


def test_a_long_head_is_refused(api: Api, subtests: pytest.Subtests) -> None:
    for head, status in [
        (CLOSING + b"a:\r\n" * 98, 200),
        (CLOSING + b"a:\r\n" * 99, 431),
        (CLOSING.replace(b"\r", b"") + b"a:\n" * 5_000, 431),
        (CLOSING + b"a: " + b"b" * (15 << 10) + b"\r\n", 200),
        (CLOSING + b"a: " + b"b" * (16 << 10) + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\n" + CHUNKED + b"0\r\n" + b"a:\r\n" * 5_000, 431),
    ]:
        with subtests.test(bytes=len(head), status=status):
            assert _statuses(api, head + b"\r\n") == [status]


def test_a_long_head_without_an_end_is_refused(api: Api) -> None:
    assert _statuses(api, SHORT_HEAD + b"a:\r\n" * 100) == [431]


def test_a_long_head_behind_others_is_refused(api: Api) -> None:
    requests = [SHORT_HEAD, SHORT_HEAD, SHORT_HEAD + b"a:\r\n" * 100, SHORT_HEAD]

    assert _statuses(api, b"".join(head + b"\r\n" for head in requests)) == [200, 200, 431]


def _statuses(api: Api, sent: bytes) -> list[int]:
    """Return the statuses of the answers until the server closes the connection."""
    with socket.create_connection(api.address, timeout=30) as client:
        client.sendall(sent)
        answers = client.makefile("rb").read()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answers)]


def test_bad_requests_are_logged_once_a_minute(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = RareWarning(logging.getLogger("test"), "%d from %s")
    monkeypatch.setattr(http_protocol, "refusals", refusals)
    upgrade = CLOSING + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    with caplog.at_level(logging.WARNING):
        statuses = [_statuses(api, request) for request in (b"\r\rx\r\n\r\n", b"x\r\n\r\n", upgrade)]
        monkeypatch.setattr(rare_warning, "LOG_SECONDS", 0)
        _statuses(api, b"x\r\n\r\n")

    assert statuses == [[400], [400], [200]]
    assert caplog.messages == ["1 from 127.0.0.1", "2 from 127.0.0.1"]


def test_an_invalid_rest_of_a_body_is_not_an_error(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), socket.create_connection(api.address, timeout=30) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\n" + CHUNKED)
        answer = b""
        while not answer.endswith(b"}"):
            answer += client.recv(4_096)
        client.sendall(b"no chunk\r\n")
        rest = client.recv(4_096)

    assert (answer[:13], rest) == (b"HTTP/1.1 200 ", b"")
    assert caplog.messages == []


def test_a_body_of_no_valid_request_is_not_read(api: Api, subtests: pytest.Subtests) -> None:
    for scope, status in [("", 401), ("node:n1@shop", 403)]:
        with subtests.test(scope=scope, status=status):
            authorization = f"Authorization: Bearer {api.token(scope)}\r\n" if scope else ""
            with socket.create_connection(api.address, timeout=30) as client:
                head = f"POST /v1/instances/shop/protections HTTP/1.1\r\nHost: x\r\n{authorization}"
                head += "Content-Length: 5000000\r\n\r\n"
                client.sendall(head.encode())
                answer = client.recv(4_096)

            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
            assert b"application/problem+json" in answer
