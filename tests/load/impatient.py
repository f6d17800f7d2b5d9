"""
Callers who call again as soon as they are answered, also by a refusal, until they are ended:
`python -m tests.load.impatient PORT CA_FILE COUNT ADDRESS`. *ADDRESS* is where they come from.

A program of its own: whoever calls beside them has time of his own.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.e2e.callers import Caller
from tests.load.crowd import files_at_most
from tests.load.overload import HEAD, GateDoor, heavy_review

# Before somebody comes again who was hung up on.
PAUSE_S = 0.1


async def call_again(caller: Caller, body: bytes) -> None:
    while True:
        try:
            await caller.post(HEAD, body)
        except (OSError, EOFError):
            await asyncio.sleep(PAUSE_S)


async def call_all(port: int, ca_pem: str, count: int, address: str) -> None:
    caller, body = Caller(GateDoor(port, ca_pem, address)), heavy_review()
    await asyncio.gather(*[call_again(caller, body) for _ in range(count)])


if __name__ == "__main__":
    # Each of them costs one.
    files_at_most()
    asyncio.run(
        call_all(int(sys.argv[1]), Path(sys.argv[2]).read_text(), int(sys.argv[3]), sys.argv[4])
    )
