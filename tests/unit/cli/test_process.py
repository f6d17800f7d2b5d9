from __future__ import annotations

import json
import subprocess
import sys

import pytest

# In a process of its own: nobody gets back what he has given up.
PROGRAM = """
import resource, sys
from webhook.cli.process import files_for_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(files_for_connections(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "want"),
    [
        pytest.param(256, 2000, "1600 2000", id="takes-all-that-are-allowed"),
        pytest.param(2000, 2000, "1600 2000", id="has-all-that-are-allowed"),
        pytest.param(64, 100, "16 100", id="a-few-connections-in-any-case"),
    ],
)
def test_there_are_as_many_connections_as_files_allow(soft: int, hard: int, want: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == want


# It listens, and ends.
LISTEN = """
import asyncio, contextlib, resource, sys
from tests.api.gate import Gate
from webhook.api.app import build_app
from webhook.cli.process import listen
from webhook.settings import Address
from webhook.telemetry.logs import configure_logging
resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))
configure_logging("info")

async def main():
    async with contextlib.AsyncExitStack() as stack:
        app = build_app(Gate().services)
        await listen(stack, app, Address("127.0.0.1", 0), most=int(sys.argv[1]))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most", "want"),
    [
        pytest.param(
            2048,
            [
                "at most 100 connections are held in place of 2048: this process may open no more files"
            ],
            id="too-few-files",
        ),
        pytest.param(100, [], id="just-enough"),
    ],
)
def test_where_files_allow_fewer_connections_it_is_said_once(most: int, want: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTEN, str(most)], capture_output=True, text=True, check=True
    )

    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["message"] for line in said if line["logger"] == "gatewright.serve"] == want
