"""Text in a policy file stays text, from the file to the patch."""

from __future__ import annotations

import pytest

from tests.builders import make_pod, make_snapshot, submit
from webhook.model.manifests import load_documents
from webhook.store.snapshot import Snapshot

POLICY = """
apiVersion: policy.gatewright.io/v1alpha1
kind: GVKPolicy
metadata: {name: text}
spec:
  workloadType: {version: v1, kind: Pod}
  scope: tenant
  rules:
    - field: %s
      specSelector: %s
      enforcements:
        - set: %s
"""


def load(field: str, selector: str, value: str) -> Snapshot:
    (manifest,) = load_documents(POLICY % (field, selector, value), "text.yaml")
    return make_snapshot(manifest.value)


@pytest.mark.parametrize("written", ["no", "on", "y", "off", "Yes", "1_000", "12:30", "0b11"])
@pytest.mark.parametrize("quote", ["", "'", '"'], ids=["plain", "single", "double"])
def test_what_yaml_1_1_takes_for_something_else_arrives_as_text(written: str, quote: str) -> None:
    snapshot = load("annotations", "metadata", f"{{key: a/b, value: {quote}{written}{quote}}}")

    answer = submit(snapshot, make_pod())

    assert snapshot.problems == ()
    assert answer.at("/metadata/annotations") == {"a/b": written}


@pytest.mark.parametrize("written", ["017", "0o17", "8", "1.5", "true", "0x1F"])
def test_a_number_or_boolean_for_a_text_is_refused_by_name_when_written(written: str) -> None:
    (problem,) = load("annotations", "metadata", f"{{key: a/b, value: {written}}}").problems

    assert problem.path == "spec.rules[0].enforcements[0].set.value"
    assert "must be text" in problem.problem
    assert "put it in quotes" in problem.problem


@pytest.mark.parametrize("written", ["~", "null", ""])
def test_null_is_no_value(written: str) -> None:
    (problem,) = load("annotations", "metadata", f"{{key: a/b, value: {written}}}").problems

    assert "is needed" in problem.problem


@pytest.mark.parametrize(
    ("field", "selector", "written", "problem"),
    [
        ("shareProcessNamespace", "podSpec", "no", "must be true or false, got text"),
        ("shareProcessNamespace", "podSpec", "on", "must be true or false, got text"),
        ("shareProcessNamespace", "podSpec", "'true'", "must be true or false, got text"),
        ("shareProcessNamespace", "podSpec", "1", "must be true or false, got number"),
        ("runAsUser", "podSpec", "1_000", "must be a whole number, got text"),
        ("runAsUser", "podSpec", "12:30", "must be a whole number, got text"),
        ("runAsUser", "podSpec", "y", "must be a whole number, got text"),
        ("runAsUser", "podSpec", "true", "must be a whole number, got boolean"),
        ("runAsUser", "podSpec", "1.5", "must be a whole number, got number"),
    ],
)
def test_typed_fields_refuse_the_wrong_type_by_name(
    field: str, selector: str, written: str, problem: str
) -> None:
    (found,) = load(field, selector, written).problems

    assert (found.path, found.problem) == ("spec.rules[0].enforcements[0].set", problem)


@pytest.mark.parametrize(
    ("written", "want"),
    [("017", 15), ("0o17", 15), ("1000", 1000), ("'1000'", 1000), ("1e3", 1000)],
)
def test_whole_numbers_are_written_as_numbers(written: str, want: int) -> None:
    answer = submit(load("runAsUser", "podSpec", written), make_pod())

    assert answer.at("/spec/securityContext/runAsUser") == want
