"""A client cannot make the API parse for long what it sends within one packet."""

import json
import logging
import socket

import pytest

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


@pytest.mark.parametrize(("scope", "status"), [("", 401), ("node:n1@shop", 403)])
def test_a_body_of_no_valid_request_is_not_read(api: Api, scope: str, status: int) -> None:
    authorization = f"Authorization: Bearer {api.token(scope)}\r\n" if scope else ""
    with socket.create_connection(api.address, timeout=30) as client:
        head = (
            f"POST /v1/instances/shop/protections HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: 5000000\r\n\r\n"
        )
        client.sendall(head.encode())
        answer = client.recv(4_096)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"application/problem+json" in answer
