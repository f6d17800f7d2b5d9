"""Whatever is wrong is answered with what and where, in one shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import ACME, FIELD_GROUPS, FORMATTERS, MAPPINGS, POLICIES, TRAININGS, Api
from tests.builders import DEPLOYMENT, make_rule

READ = {"getExpr": ".a", "setExpr": "{a: $ARGS.named.value}", "argsInfo": {"value": "string"}}


def formatter(**field: Any) -> dict[str, Any]:
    return {"name": "a", "fields": {"a": {**READ, **field}}}


def group(*, item_selectors: Any = None, **field: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"name": "g", "fields": {"f": field}}
    return {**body, "itemSelectors": item_selectors} if item_selectors else body


def mapping(**selectors: Any) -> dict[str, Any]:
    return {"workloadType": ACME, "specSelectors": selectors}


def selector(query: str = ".spec", *groups: str, **more: Any) -> dict[str, Any]:
    return {"query": query, "fieldGroups": list(groups or ("podSpec",)), **more}


def policy(*rules: Any, **more: Any) -> dict[str, Any]:
    return {"workloadType": DEPLOYMENT, "scope": "tenant", "rules": list(rules), **more}


CYCLE = mapping(
    a=selector(dependency={"specSelector": "b", "path": "x"}),
    b=selector(dependency={"specSelector": "a", "path": "y"}),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "where", "what"),
    [
        pytest.param(FORMATTERS, {"fields": {}}, "name", "is needed", id="no-name"),
        pytest.param(FORMATTERS, {"name": "-a"}, "name", "letters and digits", id="leading-hyphen"),
        pytest.param(FORMATTERS, {"name": "a_b"}, "name", "letters and digits", id="underscore"),
        pytest.param(FORMATTERS, {"name": "a b"}, "name", "letters and digits", id="space"),
        pytest.param(FORMATTERS, {"name": "a.b"}, "name", "letters and digits", id="dot"),
        pytest.param(FORMATTERS, {"name": "ä"}, "name", "letters and digits", id="other-letters"),
        pytest.param(FORMATTERS, {"name": "a" * 201}, "name", "longer than 200", id="long-name"),
        pytest.param(FORMATTERS, {"name": 7}, "name", "is needed", id="number-as-name"),
        pytest.param(FIELD_GROUPS, {"name": "a/b"}, "name", "letters and digits", id="group-name"),
        pytest.param(
            FORMATTERS,
            formatter(argsInfo={"value": "integer"}, argsEnum={"value": ["1"]}),
            "fields.a.argsEnum.value",
            "string",
            id="enum-of-numbers",
        ),
        pytest.param(
            FORMATTERS,
            formatter(argsInfo={"value": "text"}),
            "fields.a.argsInfo.value",
            "",
            id="type",
        ),
        pytest.param(
            FORMATTERS, formatter(getExpr=".a |"), "fields.a.getExpr", "", id="no-expression"
        ),
        pytest.param(
            FORMATTERS, formatter(getExpr="env"), "fields.a.getExpr", "env", id="environment"
        ),
        pytest.param(
            FORMATTERS, formatter(getExp=".a"), "fields.a.getExp", "getExpr", id="misspelt"
        ),
        pytest.param(
            FIELD_GROUPS, group(formatter="nope"), "fields.f.formatter", "nope", id="no-formatter"
        ),
        pytest.param(
            FIELD_GROUPS, group(type="text"), "fields.f.type", "", id="no-such-field-type"
        ),
        pytest.param(
            FIELD_GROUPS, group(specRef="a[0].b"), "fields.f.specRef", "", id="path-into-a-list"
        ),
        pytest.param(
            FIELD_GROUPS,
            group(type="strings", itemSelectors=["x"]),
            "fields.f.itemSelectors[0]",
            "x",
            id="no-such-item-selector",
        ),
        pytest.param(
            FIELD_GROUPS,
            group(
                type="integer",
                itemSelectors=["x"],
                item_selectors={"x": {"query": 'select(.name == "a")'}},
            ),
            "fields.f.itemSelectors",
            "",
            id="item-selector-of-no-list",
        ),
        pytest.param(
            FIELD_GROUPS, {"name": "g", "field": {}}, "field", 'did you mean "fields"', id="unknown"
        ),
        pytest.param(
            MAPPINGS, {"specSelectors": {}}, "workloadType", "is needed", id="no-workload-type"
        ),
        pytest.param(
            MAPPINGS, {"workloadType": {"kind": "A"}}, "workloadType", "version", id="no-version"
        ),
        pytest.param(
            MAPPINGS,
            mapping(a={"query": ".spec", "fieldGroups": []}),
            "specSelectors.a.fieldGroups",
            "must not be empty",
            id="no-group-in-the-list",
        ),
        pytest.param(
            POLICIES, policy(description=""), "description", "1 to 1023", id="empty-description"
        ),
        pytest.param(
            POLICIES,
            policy(description="x" * 1024),
            "description",
            "1 to 1023 characters, not 1024",
            id="long-description",
        ),
        pytest.param(
            MAPPINGS, {"workloadType": "acme"}, "workloadType", "acme", id="no-native-type"
        ),
        pytest.param(
            MAPPINGS,
            mapping(a=selector(".spec", "nope")),
            "specSelectors.a.fieldGroups[0]",
            "nope",
            id="unknown-field-group",
        ),
        pytest.param(MAPPINGS, CYCLE, "specSelectors.a.dependency", "itself", id="circle"),
        pytest.param(
            MAPPINGS,
            mapping(a=selector(dependency={"specSelector": "b"})),
            "specSelectors.a.dependency.specSelector",
            "'b'",
            id="unknown-parent",
        ),
        pytest.param(
            MAPPINGS,
            mapping(a=selector('.spec | select(.x == "')),
            "specSelectors.a.query",
            "",
            id="no-query",
        ),
        pytest.param(
            MAPPINGS,
            mapping(a=selector("range(1e9)")),
            "specSelectors.a.query",
            "range",
            id="unbounded-query",
        ),
        pytest.param(
            MAPPINGS, {"workloadType": ACME}, "specSelectors", "needed", id="no-selectors"
        ),
        pytest.param(
            POLICIES, {"scope": "tenant"}, "workloadType", "is needed", id="policy-of-none"
        ),
        pytest.param(
            POLICIES, {"workloadType": DEPLOYMENT}, "scope", "is needed", id="policy-nowhere"
        ),
        pytest.param(POLICIES, policy(scope="world"), "scope", "must be one of", id="no-scope"),
        pytest.param(POLICIES, policy(scope="project"), "projectId", "is needed", id="no-unit"),
        pytest.param(
            POLICIES, policy(projectId="a"), "projectId", "does not go with", id="unit-too-narrow"
        ),
        pytest.param(
            POLICIES,
            policy(workloadType={"group": "nobody.io", "version": "v1", "kind": "None"}),
            "workloadType",
            "no mapping",
            id="kind-without-mapping",
        ),
        pytest.param(
            POLICIES,
            policy(make_rule("imege", "allContainers", {"required": True})),
            "rules[0].field",
            'did you mean "image"',
            id="unknown-field",
        ),
        pytest.param(
            POLICIES,
            policy(make_rule("replicas", "workload", {"default": 5}, {"max": 4})),
            "rules[0].enforcements[0]",
            "above the maximum",
            id="never-satisfied",
        ),
        pytest.param(
            POLICIES, policy(rule=[]), "rule", 'did you mean "rules"', id="unknown-key-of-policy"
        ),
        pytest.param(
            f"{POLICIES}/effective",
            {"workloadType": DEPLOYMENT, "scope": "department"},
            "departmentId",
            "is needed",
            id="effective-nowhere",
        ),
        pytest.param(
            f"{MAPPINGS}/minimal",
            {"workloadType": ACME, "x": 1},
            "x",
            "unknown field",
            id="minimal",
        ),
        pytest.param(
            f"{MAPPINGS}/field-info",
            {"fieldsRef": [{}]},
            "fieldsRef[0]",
            "must be",
            id="field-info",
        ),
    ],
)
async def test_a_wrong_body_is_refused_with_what_and_where(
    tmp_path: Path, path: str, body: Any, where: str, what: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.post(path, body)
        written = list((tmp_path / "policies").iterdir())

    assert answer.status == 400, answer
    lines = answer.details.split("\n")
    assert any(line.startswith(f"{where}: ") and what in line for line in lines), answer.details
    assert written == []


async def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    body = policy(
        make_rule("imege", "allContainers", {"required": True}),
        make_rule("image", "nowhere", {"required": True}),
    )
    async with Api(tmp_path) as api:
        answer = await api.post(POLICIES, body)

    assert [line.split(":")[0] for line in answer.details.split("\n")] == [
        "rules[0].field",
        "rules[1].specSelector",
    ]


@pytest.mark.slow
async def test_set_needs_both_expressions(tmp_path: Path) -> None:
    blind = {"setExpr": "{a: $ARGS.named.value}", "argsInfo": {"value": "string"}}
    async with Api(tmp_path) as api:
        await api.must("POST", FORMATTERS, {"name": "blind", "fields": {"a": blind}})
        group_body = {"name": "acme", "fields": {"a": {"formatter": "blind", "type": "string"}}}
        await api.must("POST", FIELD_GROUPS, group_body)
        await api.must("POST", MAPPINGS, mapping(a=selector(".spec", "acme")))
        rule = make_rule("a", "a", {"set": "x"})
        answer = await api.post(POLICIES, policy(rule, workloadType=ACME))

    assert answer.status == 400
    assert answer.details.startswith("rules[0]")
    assert "getExpr" in answer.details


async def test_a_change_that_breaks_others_is_refused_naming_them(tmp_path: Path) -> None:
    job = {"name": "job", "fields": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    async with Api(tmp_path) as api:
        await api.must("POST", FIELD_GROUPS, job)
        await api.must("POST", MAPPINGS, mapping(job=selector(".spec", "job")))
        rule = make_rule("a", "job", {"max": 4})
        await api.must("POST", POLICIES, policy(rule, workloadType=ACME))
        answers = [
            await api.patch(f"{FIELD_GROUPS}/job", {"fields": {"a": None}}),
            await api.patch(f"{FIELD_GROUPS}/job", {"fields": {"a": {"type": "string"}}}),
            await api.patch(f"{FIELD_GROUPS}/job", {"fields": {"b": None}}),
        ]

    assert [answer.status for answer in answers] == [400, 400, 200]
    assert "acme.io-v1-acmejob-tenant" in answers[0].details


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "where", "what"),
    [
        pytest.param({}, "scope", "is needed", id="no-meta"),
        pytest.param({"meta": []}, "meta", "must be an object", id="meta-of-another-type"),
        pytest.param({"meta": {"scpe": "tenant"}}, "meta.scpe", "did you mean", id="misspelt-meta"),
        pytest.param({"policy": 1}, "policy", "must be an object", id="policy-of-another-type"),
        pytest.param(
            {"policy": {"rule": {}}}, "policy.rule", "did you mean", id="misspelt-section"
        ),
        pytest.param(
            {"policy": {"defaults": {"compute": {"gpuDevices": 1}}}},
            "policy.defaults.compute.gpuDevices",
            "gpuDevicesRequest",
            id="unknown-field",
        ),
        pytest.param(
            {"policy": {"defaults": {"image": "a", "Image": "b"}}},
            "policy.defaults.Image",
            "the same field",
            id="one-field-twice",
        ),
        pytest.param(
            {"policy": {"imposedAssets": ["nothing"]}},
            "policy.imposedAssets[0]",
            "no DataSource",
            id="missing-reference",
        ),
        pytest.param({"reset": ["nothing"]}, "reset[0]", "is no field", id="reset-of-nothing"),
        pytest.param({"reset": {}}, "reset", "must be a list", id="reset-of-another-type"),
        pytest.param({"meta": {"scope": "tenant", "name": 1}}, "meta.name", "text", id="name"),
        pytest.param({"polcy": {}}, "polcy", 'did you mean "policy"', id="unknown-key"),
    ],
)
async def test_a_wrong_native_policy_is_refused_with_what_and_where(
    tmp_path: Path, body: Any, where: str, what: str
) -> None:
    meta = {"meta": {"scope": "tenant"}} if body else {}
    async with Api(tmp_path) as api:
        await api.must("PUT", TRAININGS, {"meta": {"scope": "tenant"}, "policy": {}})
        answer = await api.patch(TRAININGS, {**meta, **body})

    assert answer.status == 400, answer
    lines = answer.details.split("\n")
    assert any(line.startswith(f"{where}: ") and what in line for line in lines), answer.details


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param(b"", "is needed", id="nothing"),
        pytest.param(b"{", "is not JSON", id="cut-off"),
        pytest.param(b'{"name": "a",}', "is not JSON", id="comma-too-many"),
        pytest.param(b"name: a", "is not JSON", id="yaml"),
        pytest.param(b'{"name": &a "x", "y": *a}', "is not JSON", id="anchor"),
        pytest.param(b"a: &a [x]\nb: &b [*a, *a]\nname: [*b, *b]", "is not JSON", id="aliases"),
        pytest.param(b'!!python/name:os.system {"name": "a"}', "is not JSON", id="tag"),
        pytest.param(b'{"name": NaN}', "is not JSON", id="nan"),
        pytest.param(b'{"name": "\xff"}', "is not JSON", id="no-utf-8"),
        pytest.param(b'{"name": "a", "name": "b"}', "there twice", id="key-twice"),
        pytest.param(b"[]", "must be one JSON object", id="array"),
        pytest.param(b"null", "must be one JSON object", id="null"),
        pytest.param(b'[{"name": "a"}]', "must be one JSON object", id="array-of-one"),
        pytest.param(
            b'{"kind": "List", "items": [{"name": "a"}]}', "must be one JSON object", id="list"
        ),
        pytest.param(b"[" * 300 + b"]" * 300, "nests deeper", id="deep"),
        pytest.param(
            b'{"name": "a", "x": "' + b"x" * 5_000_000 + b'"}', "is larger than 1 MiB", id="5-mb"
        ),
    ],
)
async def test_a_body_that_is_no_object_is_refused(
    tmp_path: Path, raw: bytes, problem: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.call("POST", FORMATTERS, raw=raw)

    assert answer.status == 400
    assert problem in answer.details


@pytest.mark.slow
async def test_a_body_beyond_all_bounds_and_one_of_another_type_are_not_read(
    tmp_path: Path,
) -> None:
    async with Api(tmp_path) as api:
        large = await api.call("POST", FORMATTERS, raw=b'"' + b"x" * 9 * 2**20 + b'"')
        form = await api.call("POST", FORMATTERS, raw=b"{}", Content_Type="text/plain")
        packed = await api.call("POST", FORMATTERS, raw=b"{}", Content_Encoding="rot13")

    assert (large.status, form.status, packed.status) == (413, 415, 415)
    assert "larger than" in large.details
    assert "application/json" in form.details


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", FORMATTERS),
        ("PATCH", f"{FORMATTERS}/KeyValue"),
        ("PATCH", MAPPINGS),
        ("POST", f"{MAPPINGS}/minimal"),
        ("PUT", f"{TRAININGS}?scope=tenant"),
        ("POST", "/api/v1/review"),
    ],
)
async def test_a_body_that_is_not_there_is_asked_for(
    tmp_path: Path, method: str, path: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.call(method, path)

    assert (answer.status, answer.details) == (400, "body: is needed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"{MAPPINGS}?filterby=kind==Pod", 'did you mean "filterBy"'),
        (f"{MAPPINGS}?filterBy=kid==Pod", 'did you mean "kind"'),
        (f"{MAPPINGS}?sortBy=x", "no column"),
        (f"{MAPPINGS}?limit=many", "whole number"),
        (f"{FORMATTERS}/KeyValue?limit=1", "no parameter"),
        (f"{TRAININGS}", "scope: is needed"),
        (f"{TRAININGS}?scope=tenant&scope=cluster", "is there twice"),
    ],
)
async def test_a_query_that_means_nothing_is_refused(
    tmp_path: Path, path: str, problem: str
) -> None:
    async with Api(tmp_path) as api:
        answer = await api.get(path)

    assert answer.status == 400
    assert problem in answer.details


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["yes", "1", ""])
async def test_validate_only_is_true_or_false(tmp_path: Path, flag: str) -> None:
    """Whoever asks for a trial in other words must not get the real thing."""
    body = {"meta": {"scope": "tenant"}, "policy": {}}
    async with Api(tmp_path) as api:
        answer = await api.put(f"{TRAININGS}?validateOnly={flag}", body)

    assert answer.status == 400
    assert answer.details == "validateOnly: must be true or false"
