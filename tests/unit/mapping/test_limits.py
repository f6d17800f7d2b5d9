"""How long an evaluation may take, by the size of its document."""

from __future__ import annotations

import pytest

from webhook.mapping.limits import LARGE_DOCUMENT_BYTES, WorkerLimits

MIB = 1 << 20

# What an API server waits for an answer by the settings that we recommend.
WEBHOOK_TIMEOUT_MS = 5000


@pytest.mark.parametrize(
    ("document_bytes", "want_ms"),
    [
        pytest.param(0, 250, id="nothing"),
        pytest.param(5_000, 251, id="a-usual-object"),
        pytest.param(LARGE_DOCUMENT_BYTES, 350, id="not-large-yet"),
        pytest.param(3 * MIB, 1450, id="as-large-as-an-api-server-accepts"),
        pytest.param(16 * MIB, 1500, id="as-large-as-we-read"),
    ],
)
def test_a_larger_document_has_more_time_up_to_a_maximum(document_bytes: int, want_ms: int) -> None:
    assert WorkerLimits().evaluation_ms(document_bytes) == want_ms


@pytest.mark.parametrize("document_bytes", [0, MIB, 16 * MIB])
def test_a_time_above_the_maximum_counts_for_every_size(document_bytes: int) -> None:
    """Who sets it wants it."""
    assert WorkerLimits(evaluate_ms=8000).evaluation_ms(document_bytes) == 8000


def test_waiting_and_evaluating_end_before_the_api_server_gives_up() -> None:
    limits = WorkerLimits()

    assert limits.wait_ms + limits.evaluation_ms(16 * MIB) < WEBHOOK_TIMEOUT_MS
