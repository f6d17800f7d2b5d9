"""What Prometheus answers, and who says that he is Prometheus."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import budget
from tests.fuzz.mutations import damaged, mutated
from webhook.clients.prometheus_answers import read_error, read_vector
from webhook.errors import PrometheusError

pytestmark = pytest.mark.slow

TOKEN = "hunter2hunter2"
ANSWERS: list[Any] = [
    {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [
                {"metric": {"pod": "a", "gpu": "0"}, "value": [1764547200.1, "97.5"]},
                {"metric": {"pod": "b"}, "value": [1764547200, "NaN"]},
                {"metric": {}, "histogram": [1764547200, {"count": "1"}]},
            ],
        },
    },
    {"status": "error", "errorType": "bad_data", "error": f"parse error near {TOKEN}"},
    {"status": "success", "warnings": [f"{TOKEN} did not answer"], "data": {"result": []}},
]
MAX_CHARS = 400


@budget(500)
@given(mutated(ANSWERS))
def test_an_answer_of_any_shape_is_samples_or_one_short_line(told: Any) -> None:
    try:
        samples = read_vector(told, secret=TOKEN)
    except PrometheusError as error:
        text = str(error)
        assert TOKEN not in text
        assert len(text) < MAX_CHARS
        assert "\n" not in text
        return

    amounts = [each.value for each in samples if each.value is not None]
    assert all(amount.is_finite() and amount >= 0 for amount in amounts)
    assert all(isinstance(text, str) for each in samples for text in each.labels.values())


@budget(300)
@given(
    damaged([orjson.dumps(each) for each in ANSWERS]) | st.binary(max_size=100),
    st.sampled_from(["application/json", "text/plain", "text/html", ""]),
)
def test_the_body_of_an_error_is_two_short_lines(body: bytes, content_type: str) -> None:
    for text in read_error(body, content_type, secret=TOKEN):
        assert TOKEN not in text
        assert len(text) < MAX_CHARS
        assert "\n" not in text
