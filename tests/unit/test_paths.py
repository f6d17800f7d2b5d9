"""Names become parts of paths of an API server, and must stay what they are there."""

from __future__ import annotations

import ast
from pathlib import Path

WEBHOOK = Path(__file__).parents[2] / "webhook"


def test_a_slash_in_a_name_never_leads_to_another_path() -> None:
    """`urllib.parse.quote` leaves slashes as they are, unless it is told."""
    found = [
        (path.name, call.lineno, [each.arg for each in call.keywords])
        for path in WEBHOOK.rglob("*.py")
        if "from urllib.parse import" in path.read_text()
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "quote"
    ]

    assert len(found) > 20
    assert [each for each in found if "safe" not in each[2]] == []
