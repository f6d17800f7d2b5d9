"""Waiting."""

import pytest

from tests.controlplane.errors import WaitTimeoutError
from tests.controlplane.wait import wait_until


def test_the_first_true_answer_is_returned() -> None:
    answers = iter([None, "", "ready", "later"])

    assert wait_until(lambda: next(answers), 10, "an answer", interval_s=0) == "ready"


def test_it_asks_at_least_once() -> None:
    assert wait_until(lambda: True, 0, "nothing")


def test_the_error_says_what_was_waited_for_and_what_was_seen() -> None:
    with pytest.raises(WaitTimeoutError) as e:
        wait_until(list, 0, "three pods")

    assert e.value.summary == "waited 0 s for three pods: not seen (the last answer was [])"


def test_it_is_a_timeout_to_those_who_catch_timeouts() -> None:
    with pytest.raises(TimeoutError):
        wait_until(lambda: False, 0, "anything")


def test_an_error_of_the_question_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, 10, "a number")
