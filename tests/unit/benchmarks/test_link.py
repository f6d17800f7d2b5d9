"""How the benchmarks call a server."""

from __future__ import annotations

import http.client
from pathlib import Path

import pytest

from benchmarks.link import Link
from tests.unit.benchmarks.tls_server import answering, http_answer


def test_answers_come_over_one_connection_with_what_they_took(tmp_path: Path) -> None:
    with answering(tmp_path, [http_answer(b"one"), http_answer(b"\xff", "503 Busy")]) as server:
        link = Link(server.port, server.ca_pem)
        link.connect()
        first, second = link.post("/mutate", b"{}"), link.post("/mutate", b"{}")
        link.close()

    assert (first.status, first.body, first.text) == (200, b"one", "one")
    assert (second.status, second.text) == (503, "\ufffd")
    assert first.took_ms > 0


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        pytest.param([], ConnectionError, id="hung-up"),
        pytest.param([b"SSH-2.0\r\n"], http.client.BadStatusLine, id="no-http"),
    ],
)
def test_no_answer_is_an_error(
    tmp_path: Path, answers: list[bytes], error: type[Exception]
) -> None:
    with answering(tmp_path, answers) as server:
        link = Link(server.port, server.ca_pem)
        with pytest.raises(error):
            link.post("/mutate", b"{}")
        link.close()
