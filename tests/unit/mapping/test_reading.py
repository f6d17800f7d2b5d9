"""Whether the text of an expression tells which keys it reads."""

from __future__ import annotations

import pytest

from webhook.mapping.reading import Reach, reach_of


@pytest.mark.parametrize(
    "source",
    [
        '.address // empty | split(":") | .[1] | tonumber?',
        "if .range then .range | {low: .[0], high: .[1]} else null end",
        "(.replicas // 0) * (.gpus // 0)",
        ".options[$ARGS.named.key]?",
        '.["x"]."y"[-1:]',
        ".t as $t | $t.x",
        "if [.x] == [1] then .a else .b end",
        '{"a": .x, b, (.k): 1}',
    ],
)
def test_keys_and_indexes_that_are_spelled_out_are_all_that_it_reads(source: str) -> None:
    assert reach_of(source) is Reach.NAMED


@pytest.mark.parametrize(
    "source",
    [
        ".volumes[]? | select(.configMap) | {name, of: .configMap.name}",
        '.["x"][]?, ."y"[]',
        ".x | map(.n)",
        "[.roles[]?.replicas] | add",
        '"\\(.a):\\(.b // "x")"',
        ".port | tostring",
    ],
)
def test_items_of_what_stands_at_a_key_may_be_the_values_of_an_object(source: str) -> None:
    assert reach_of(source) is Reach.ITEMS


@pytest.mark.parametrize(
    "source",
    [
        '[.. | objects | select(.name? == "A")][0].value',
        "recurse",
        ".containers[0] | [.[] | arrays][0][0].value",
        '.containers[0]["e" + "nv"][0].value',
        ".containers[0][(.k)]",
        ".x[$ARGS.named.value]",
        'to_entries[] | select(.key | startswith("en")) | .value',
        'getpath(["e" + "nv"])',
        "with_entries(.value)",
        "[paths]",
        ".containers[][]",
        "map(.)",
        '.["e\\u006ev"]',
        '."e\\("n")v"',
        '{"e\\("n")v"}',
        ". as {$env} | $env",
        ". as [$a] | $a",
        ".x as {a: $b} ?// $b | $b",
        "tojson",
        "@json",
        "try error(.) catch .",
        '"\\("\\(..)")"',
        "unheard_of",
    ],
)
def test_what_goes_elsewhere_may_read_anything(source: str) -> None:
    assert reach_of(source) is Reach.ANYTHING
