"""Refusals spell every path as the body has it, before a message and within it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import FIELD_GROUPS, FORMATTERS, POLICIES, TRAININGS, Api
from tests.builders import DEPLOYMENT, make_rule

REPLICAS = make_rule("replicas", "workload", {"max": 2})


def native(**policy: Any) -> dict[str, Any]:
    return {"meta": {"scope": "tenant"}, "policy": policy}


def flat(*rules: Any) -> dict[str, Any]:
    return {"workloadType": DEPLOYMENT, "scope": "tenant", "rules": list(rules)}


LABELS = [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "body", "want"),
    [
        pytest.param(
            *("POST", POLICIES, flat(REPLICAS, REPLICAS)),
            "rules[1]: rules[0] is about replicas as well; join the two",
            id="rule-twice",
        ),
        pytest.param(
            *("POST", POLICIES, flat(make_rule("replicas", "workload", {"max": 2}, {"max": 3}))),
            "rules[0].enforcements[1]: the same enforcement stands at rules[0].enforcements[0]",
            id="enforcement-twice",
        ),
        pytest.param(
            *("PUT", TRAININGS, native(defaults={"environmentVariables": {"instances": LABELS}})),
            "policy.defaults.environmentVariables.instances[1]:",
            id="item-twice",
        ),
        pytest.param(
            *("PUT", TRAININGS, native(rules={"image": {"default": "x"}})),
            "policy.rules.image.default: a default is no rule: it stands in policy.defaults, as the"
            " value itself",
            id="default-as-a-rule",
        ),
        pytest.param(
            *("PUT", TRAININGS, native(imposedAssets=["gone"])),
            "policy.imposedAssets[0]: no DataSource 'gone'",
            id="asset",
        ),
        pytest.param(
            *("POST", FORMATTERS, {"name": "a", "fields": {"a": {"getExpr": ".spec.fields |"}}}),
            "fields.a.getExpr:",
            id="expression",
        ),
        pytest.param(
            *("POST", FIELD_GROUPS, {"name": "a", "fields": {"a": {"type": "nope"}}}),
            "fields.a.type:",
            id="type",
        ),
    ],
)
async def test_a_path_is_spelt_as_in_the_body(
    tmp_path: Path, method: str, path: str, body: Any, want: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.call(method, path, body)

    assert answer.status == 400
    assert answer.details.startswith(want), answer.details
    # The expression is the author's own text.
    assert "spec." not in answer.details.replace(".spec.fields", "")
