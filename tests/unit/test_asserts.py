"""An assert is gone under `python -O`: none may be what keeps something out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_docs import ROOT


def asserts_in(text: str) -> Iterator[ast.Assert]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert))


def only_narrows(node: ast.Assert) -> bool:
    """
    Whether it says that something is there, and no more.

    Without it, whatever comes next fails by itself: None has none of what is asked of it.
    """
    match node.test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute(),
            ops=[ast.IsNot()],
            comparators=[ast.Constant(value=None)],
        ):
            return True
    return False


def guards() -> Iterator[str]:
    for path in sorted((ROOT / "webhook").rglob("*.py")):
        for node in asserts_in(path.read_text()):
            if not only_narrows(node):
                yield f"{Path(path).relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.slow
def test_no_assert_does_more_than_narrow_a_type() -> None:
    assert list(guards()) == []


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("assert self.get is not None, 'somebody has looked'", True),
        ("assert caller.may_write", False),
        ("assert mode == 'paths'", False),
        ("assert found(x) is not None", False),
        ("assert a is not None and b", False),
    ],
)
def test_what_narrows_a_type_is_told_from_what_guards(source: str, want: bool) -> None:
    (node,) = asserts_in(source)

    assert only_narrows(node) is want
