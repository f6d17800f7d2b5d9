"""Values, their schema and the table of the README say the same."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Set
from typing import Any, NamedTuple

import pytest
import yaml

from tests.chart.helm import CHART, EXAMPLES
from webhook.settings import OPTIONS, RECONCILE_OPTIONS

VALUES = CHART / "values.yaml"
README = CHART / "README.md"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
BEGIN, END = "<!-- values: python -m tests.chart.test_values -->\n", "<!-- end of values -->\n"

_ENTRY = re.compile(r"( *)([A-Za-z]+):(.*)")


class Value(NamedTuple):
    """A value that has a comment: its path, that comment, and the default as JSON."""

    path: str
    comment: str
    default: str


def commented_values() -> list[Value]:
    """What `values.yaml` says with a comment that begins with `# --`, in its order."""
    tree = yaml.safe_load(VALUES.read_text())
    found: list[Value] = []
    parents: list[str] = []
    comment = ""
    for line in VALUES.read_text().splitlines():
        text = line.strip()
        if text.startswith("# -- "):
            comment = text.removeprefix("# -- ")
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            continue
        depth = len(entry[1]) // 2
        parents = [*parents[:depth], entry[2]]
        if comment:
            default = tree
            for name in parents:
                default = default[name]
            found.append(Value(".".join(parents), comment, json.dumps(default)))
            comment = ""
    return found


def schema_paths(schema: dict[str, Any], known: Set[str], path: str = "") -> Iterator[str]:
    """The values that the schema names, no deeper than those that are *known*."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    members = {} if path in known else schema.get("properties", {})
    if not members:
        yield path
    for name, child in members.items():
        yield from schema_paths(child, known, f"{path}.{name}" if path else name)


def objects_of(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield path, schema
        for name, child in schema.items():
            yield from objects_of(child, f"{path}.{name}")


def table() -> str:
    rows = ["| Value | Default | |", "|---|---|---|"]
    for path, comment, default in commented_values():
        shown = default if len(default) <= 60 else "see `values.yaml`"
        rows.append(f"| `{path}` | {f'`{shown}`' if shown == default else shown} | {comment} |")
    return "\n".join(rows) + "\n"


def test_every_value_has_a_comment_and_a_schema() -> None:
    commented = {value.path for value in commented_values()}

    # Helm puts values of a parent chart into `global`.
    assert commented == set(schema_paths(SCHEMA, commented)) - {"global"}


def test_an_unknown_name_is_refused_at_every_level() -> None:
    open_ones = [path for path, each in objects_of(SCHEMA) if each.get("additionalProperties", 1)]

    assert open_ones == []


def test_no_value_but_a_few_can_be_taken_away() -> None:
    """By null, of which Helm makes a value that isn't there, and templates make nothing."""
    optional = {
        f"{path.removeprefix('$.').replace('properties.', '')}.{name}"
        for path, each in objects_of(SCHEMA)
        for name in set(each["properties"]) - set(each.get("required", []))
    }

    assert optional == {
        "podDisruptionBudget.minAvailable",
        "podDisruptionBudget.maxUnavailable",
        "updateStrategy.rollingUpdate",
        *(f"$defs.resources.{name}" for name in ("requests", "limits", "claims")),
        "$.global",
    }


def test_the_readme_has_the_table_of_values() -> None:
    text = README.read_text()

    assert text.partition(BEGIN)[2].partition(END)[0] == table(), (
        "run python -m tests.chart.test_values"
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_nothing_that_is_the_default(path: Any) -> None:
    defaults = {value.path: json.loads(value.default) for value in commented_values()}

    def leaves(node: Any, at: str = "") -> Iterator[tuple[str, Any]]:
        if at in defaults or not isinstance(node, dict):
            yield at, node
            return
        for name, child in node.items():
            yield from leaves(child, f"{at}.{name}" if at else name)

    said = dict(leaves(yaml.safe_load(path.read_text())))
    assert said
    # An issuer's lifetimes are said with it, whatever they are.
    assert [at for at, value in said.items() if defaults[at] == value and "certM" not in at] == []


def test_a_value_that_is_a_setting_has_the_default_of_the_program() -> None:
    """Empty leaves it to the program; a server in a cluster has to wait until nobody calls it."""
    options = {option.key: option.default for option in (*OPTIONS, *RECONCILE_OPTIONS)}
    same = {
        value.path: (json.loads(value.default), options[key])
        for value in commented_values()
        if (key := re.sub(r"^(server|reconciler)\.", "", value.path)) in options
    }
    assert len(same) > 15
    differing = {
        path
        for path, (value, default) in same.items()
        if value not in ("", []) and str(value).lower() != default
    }

    assert differing == {"server.shutdown.delaySeconds"}


if __name__ == "__main__":
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(before + BEGIN + table() + END + rest.partition(END)[2])
    sys.stdout.write(f"{README}\n")
