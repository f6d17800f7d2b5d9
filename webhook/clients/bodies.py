"""Reading answers of others, whose length is not known before they end."""

from __future__ import annotations

import aiohttp


async def read_bounded(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """
    The body of *answer*; None as soon as it is longer than *max_bytes*, unpacked.

    The rest is not waited for: with the end of *answer*, aiohttp closes a connection that has more.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            return None
    return b"".join(parts)
