"""The reviews that the memory is measured on, and what counts as flat."""

from __future__ import annotations

import json
import os

import pytest

from benchmarks import work
from benchmarks.endurance import (
    EnduranceResult,
    Look,
    Memory,
    Template,
    memory_of,
    promises,
    templates,
)
from tests.builders import make_snapshot
from webhook.admission.decode import decode_review
from webhook.admission.review import review
from webhook.model.request import Phase


@pytest.mark.parametrize("template", templates(), ids=lambda each: f"{each.path}-{each.allowed}")
def test_each_review_is_of_another_object_and_decided_alike(template: Template) -> None:
    snapshot = make_snapshot(*work.policies())
    phase = Phase.MUTATE if template.path == "/mutate" else Phase.VALIDATE
    requests = [decode_review(template.fill(number)).request for number in (7, 99_999)]

    assert [review(request, phase, snapshot).allowed for request in requests] == [
        template.allowed,
        template.allowed,
    ]
    for differs in ("uid", "name", "namespace", "user"):
        assert len({repr(getattr(request, differs)) for request in requests}) == 2, differs
    images = {json.dumps(request.object).count("speech-trainer:7.2.99999") for request in requests}
    assert 0 in images
    assert len(images) == 2


def make_result(*rss_mib: float, start_s: float = 1.0) -> EnduranceResult:
    looks = [Look(number * 10_000, Memory(rss, rss, 1)) for number, rss in enumerate(rss_mib)]
    return EnduranceResult(start_s, start_s, tuple(looks), 500.0)


@pytest.mark.parametrize(
    ("rss_mib", "growth_mib"),
    [
        pytest.param((80, 90, 100, 100, 100), 0, id="it-settles"),
        pytest.param((80, 90, 100, 107, 99), 7, id="it-was-more"),
        pytest.param((80, 90, 100, 95, 94), -5, id="it-gives-back"),
    ],
)
def test_growth_is_what_comes_after_it_has_settled(
    rss_mib: tuple[float, ...], growth_mib: float
) -> None:
    assert make_result(*rss_mib).growth_mib == growth_mib


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        pytest.param(make_result(120, 130, 140, 144, start_s=3.0), [True] * 3, id="at-limits"),
        pytest.param(make_result(80, 90, 90, 90, start_s=3.1), [False, True, True], id="slow"),
        pytest.param(make_result(121, 121, 121, 121), [True, False, True], id="large"),
        pytest.param(make_result(80, 90, 100, 104.1), [True, True, False], id="grows"),
    ],
)
def test_what_is_slow_large_or_grows_keeps_no_promise(
    result: EnduranceResult, kept: list[bool]
) -> None:
    assert [target.met for target in promises(result)] == kept


def test_memory_is_read_of_a_process() -> None:
    memory = memory_of(os.getpid())

    assert 1 < memory.pss_mib <= memory.rss_mib < 100_000
    assert memory.processes >= 1
