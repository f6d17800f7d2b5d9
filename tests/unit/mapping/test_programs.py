"""Which selectors need jq, and that several of them make one program."""

from __future__ import annotations

import jq
import pytest

from webhook.errors import SpecError
from webhook.mapping.programs import JqQuery, PlainSelector, alone, combine, compile_selector
from webhook.mapping.vetting import SOURCE_MAX_CHARS

GROUPS = '.spec.groups[] | select(has("template")) | .template'
DOCUMENT = {
    "kind": "Sample",
    "spec": {"groups": [{"template": {}}, {"name": "b"}, {"template": {"x": 1}}]},
}


def test_a_path_becomes_a_plain_selector() -> None:
    selector = compile_selector(".spec.template.spec", path="query")

    assert isinstance(selector, PlainSelector)
    assert selector.plain.is_single
    assert selector.source == ".spec.template.spec"


def test_anything_else_becomes_a_query_for_the_worker() -> None:
    selector = compile_selector(GROUPS, path="query")

    assert selector == JqQuery(GROUPS)
    assert selector.plain is None


@pytest.mark.parametrize("source", ["env.PATH", "", "." + " " * SOURCE_MAX_CHARS])
def test_a_selector_that_is_not_allowed_is_a_fault_of_the_document(source: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.x: "):
        compile_selector(source, path="spec.x")


def test_several_expressions_run_as_one_program() -> None:
    program = combine((".kind", ".spec[]", ".kind[]"))

    (entries,) = jq.compile(program).input_value(DOCUMENT).all()

    assert entries == [
        [["kind"]],
        [["spec", "groups"]],
        {"error": 'Cannot iterate over string ("Sample")'},
    ]


def test_an_expression_that_stands_alone_compiles_alone() -> None:
    jq.compile(alone(GROUPS + " # note \\"))
    with pytest.raises(ValueError, match="syntax error"):
        jq.compile(alone("1) , (2"))
