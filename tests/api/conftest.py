from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from webhook.telemetry.logs import configure_logging


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the server logs, at the most talkative level, as it would stand in its log."""
    root = logging.getLogger()
    kept = root.handlers[:], root.level, logging.raiseExceptions
    stream = io.StringIO()
    configure_logging("debug", stream)
    yield stream
    root.handlers[:], root.level, logging.raiseExceptions = kept
