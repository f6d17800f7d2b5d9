"""`gatewright explain`: every value and rule with where it comes from and what it overrode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import (
    DEPLOYMENT,
    POD,
    POLICY_API,
    JsonObject,
    make_gvk_policy,
    make_rule,
    make_workload_policy,
)
from webhook.cli import main
from webhook.model.manifests import dump_yaml

TRAINING = {"group": "workload.gatewright.io", "version": "v1alpha1", "kind": "Training"}
DEPLOYMENT_TYPE = "apps/v1/Deployment"


def make_namespace(name: str, **labels: str) -> JsonObject:
    keys = {"project": "runai/queue", "department": "gatewright.io/department"}
    metadata = {"name": name, "labels": {keys[key]: value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


TEAM = make_namespace("team-a-dev", project="team-a", department="research")
BASE = make_workload_policy(
    name="base",
    defaults={"parallelism": 1, "command": "run --token=hunter2"},
    rules={"parallelism": {"max": 8}, "terminationGracePeriodSeconds": {"min": 10, "max": 600}},
)
OF_DEPARTMENT = make_workload_policy(
    name="of-research", scope="department", unit="research", defaults={"parallelism": 2}
)
OF_PROJECT = make_workload_policy(
    name="of-team-a", scope="project", unit="team-a", defaults={"parallelism": 4}
)
DOCUMENTS = [TEAM, BASE, OF_DEPARTMENT, OF_PROJECT]


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Runs the command on documents: exit code, output and complaints."""

    def run(documents: list[Any], *flags: str, of: str = "training") -> tuple[int, str, str]:
        directory = tmp_path / "policies"
        directory.mkdir(exist_ok=True)
        for index, document in enumerate(documents):
            (directory / f"{index}.yaml").write_text(dump_yaml([document]))
        code = main(["explain", "--workload-type", of, "--policies", str(directory), *flags])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def rows(out: str, field: str) -> list[JsonObject]:
    return [row for row in json.loads(out) if row["field"] == field]


def test_the_json_has_exactly_the_promised_shape(explained: Any) -> None:
    code, out, err = explained(DOCUMENTS, "--project", "team-a", "-o", "json")

    assert (code, err) == (0, "")
    assert rows(out, "parallelism") == [
        {
            "field": "parallelism",
            "selector": "spec",
            "rule": "default",
            "value": 4,
            "policy": "of-team-a",
            "scope": "project",
            "unit": "team-a",
            "overrides": [
                {"policy": "of-research", "scope": "department", "unit": "research", "value": 2},
                {"policy": "base", "scope": "tenant", "unit": "", "value": 1},
            ],
        },
        {
            "field": "parallelism",
            "selector": "spec",
            "rule": "max",
            "value": 8,
            "policy": "base",
            "scope": "tenant",
            "unit": "",
            "overrides": [],
        },
    ]
    keys = ["field", "selector", "rule", "value", "policy", "scope", "unit", "overrides"]
    assert all(list(row) == keys for row in json.loads(out))


def test_yaml_and_json_are_the_same_data(explained: Any) -> None:
    _, as_json, _ = explained(DOCUMENTS, "-o", "json")
    _, as_yaml, _ = explained(DOCUMENTS, "-o", "yaml")

    assert yaml.safe_load(as_yaml) == json.loads(as_json)


def test_people_read_it_field_by_field(explained: Any) -> None:
    documents = [*DOCUMENTS[:2], OF_PROJECT]

    _, out, _ = explained(documents, "--project", "team-a", "--cluster-name", "prod")

    assert out == (
        "training in project team-a, department research, cluster prod\n"
        "command [spec]\n"
        "  default (not shown) (policy base, tenant)\n"
        "parallelism [spec]\n"
        "  default 4 (policy of-team-a, project team-a)\n"
        "    instead of 1 (policy base, tenant), which is wider\n"
        "  max 8 (policy base, tenant)\n"
        "security.privileged [spec]\n"
        "  default false (policy system-privileged, system)\n"
        "  canEdit false (policy system-privileged, system)\n"
        "terminationGracePeriodSeconds [spec]\n"
        "  default 30 (policy system-termination-grace, system)\n"
        "  min 10 (policy base, tenant)\n"
        "  max 600 (policy base, tenant)\n"
        "    instead of 300 (policy system-termination-grace, system), which is wider\n"
    )


@pytest.mark.parametrize(
    ("flags", "holder"),
    [
        pytest.param([], "base", id="everywhere"),
        pytest.param(["--project", "team-a"], "of-team-a", id="project"),
        pytest.param(["--namespace", "team-a-dev"], "of-team-a", id="namespace"),
        pytest.param(["-n", "team-a"], "of-team-a", id="namespace-that-is-not-there-is-a-project"),
        pytest.param(["--department", "research"], "of-research", id="department"),
        pytest.param(["--project", "other", "--department", "research"], "of-research", id="both"),
        pytest.param(["--project", "other"], "base", id="project-that-is-not-there"),
        pytest.param(
            ["-n", "team-a-dev", "--project", "other"], "base", id="another-project-than-its-own"
        ),
    ],
)
def test_it_is_for_the_place_that_is_named(explained: Any, flags: list[str], holder: str) -> None:
    code, out, _ = explained(DOCUMENTS, *flags, "-o", "json")

    assert code == 0
    assert rows(out, "parallelism")[0]["policy"] == holder


@pytest.mark.parametrize(
    ("queue", "namespaces", "want"),
    [
        pytest.param("research", [], ["department research"], id="by-its-queue"),
        pytest.param("", [{"department": "research"}], ["department research"], id="by-labels"),
        pytest.param("", [{}], [], id="in-none"),
    ],
)
def test_the_department_of_a_project_is_looked_up(
    explained: Any, queue: str, namespaces: list[dict[str, str]], want: list[str]
) -> None:
    documents: list[JsonObject] = [BASE, OF_DEPARTMENT]
    for index, labels in enumerate(namespaces):
        documents.append(make_namespace(f"ns-{index}", project="team-a", **labels))
    if queue:
        documents.append(
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": "team-a"},
                "spec": {"parentQueue": queue},
            }
        )

    _, out, _ = explained(documents, "--project", "team-a")

    assert out.splitlines()[0] == ", ".join(["training in project team-a", *want])


def test_a_project_in_several_departments_has_no_one_effective_policy(explained: Any) -> None:
    documents = [*DOCUMENTS, make_namespace("x", project="team-a")]

    code, out, err = explained(documents, "--project", "team-a")
    named, _, _ = explained(documents, "--project", "team-a", "--department", "research")

    assert (code, out, named) == (2, "", 0)
    assert err == (
        "gatewright: project team-a has namespaces in no department, department research;"
        " give --department\n"
    )


def test_a_cluster_is_named(explained: Any) -> None:
    documents = [
        make_workload_policy(
            name=name, scope="cluster", unit=unit, defaults={"parallelism": number}
        )
        for number, (name, unit) in enumerate({"here": "prod", "there": "test"}.items())
    ]

    holders = [
        [
            row["policy"]
            for row in rows(explained(documents, *flags, "-o", "json")[1], "parallelism")
        ]
        for flags in (["--cluster-name", "prod"], ["--cluster-name", "test"], [])
    ]

    assert holders == [["here"], ["there"], []]


# -- kinds of others -----------------------------------------------------------------------------

BROAD = make_gvk_policy(
    make_rule(
        "resourceLimits",
        "allContainers",
        {"default": {"key": "cpu", "value": "500m"}},
        {"max": {"key": "cpu", "value": 8}},
        allowOverride=True,
    ),
    kind=DEPLOYMENT,
    name="broad",
)
NARROW = make_gvk_policy(
    make_rule("resourceLimits", "allContainers", {"max": {"key": "cpu", "value": 4}}),
    kind=DEPLOYMENT,
    name="narrow",
    scope="project",
    unit="team-a",
)


def test_what_a_gvk_policy_replaces_is_shown_whole(explained: Any) -> None:
    """The replaced default has no successor, so that it stands with its rule."""
    of_broad = {"policy": "broad", "scope": "tenant", "unit": ""}

    code, out, _ = explained(
        [BROAD, NARROW], "--project", "team-a", "-o", "json", of=DEPLOYMENT_TYPE
    )
    _, text, _ = explained([BROAD, NARROW], "--project", "team-a", of=DEPLOYMENT_TYPE)

    (row,) = json.loads(out)
    assert (code, row["field"], row["rule"], row["value"]) == (0, "resourceLimits[cpu]", "max", "4")
    assert sorted(row["overrides"], key=str) == sorted(
        [{**of_broad, "value": "8"}, {**of_broad, "value": {"default": "500m"}}], key=str
    )
    assert text == (
        "apps/v1/Deployment in project team-a\n"
        "resourceLimits[cpu] [allContainers]\n"
        "  max 4 (policy narrow, project team-a)\n"
        "    instead of default 500m (policy broad, tenant), which is wider\n"
        "    instead of 8 (policy broad, tenant), which is wider\n"
    )


def test_of_two_that_write_to_one_place_the_one_that_counts_is_shown(explained: Any) -> None:
    flat = make_gvk_policy(
        make_rule("parallelism", "spec", {"default": 3}), kind=TRAINING, name="flat"
    )

    _, out, _ = explained([*DOCUMENTS, flat], "--project", "team-a", "-o", "json")

    default, maximum = rows(out, "parallelism")
    assert (default["policy"], default["value"], maximum["policy"]) == ("flat", 3, "base")
    assert [(item["policy"], item["value"]) for item in default["overrides"]] == [
        ("of-team-a", 4),
        ("of-research", 2),
        ("base", 1),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (make_rule("env", "allContainers", {"default": [{"name": "A", "value": "canary"}]}), False),
        (make_rule("args", "allContainers", {"set": ["canary"]}), False),
        (make_rule("args", "allContainers", {"pattern": ["canary*"]}), False),
        (
            make_rule("annotations", "metadata", {"default": {"key": "a", "value": "canary"}}),
            False,
        ),
        (make_rule("labels", "metadata", {"default": {"key": "a", "value": "canary"}}), True),
        (
            make_rule(
                "volumes", "podSpec", {"default": [{"name": "v", "secret": {"x": "canary"}}]}
            ),
            False,
        ),
        (make_rule("tolerations", "podSpec", {"default": [{"key": "canary"}]}), True),
    ],
    ids=["env", "args", "pattern-of-args", "annotation", "label", "secret-volume", "toleration"],
)
@pytest.mark.parametrize("output", ["text", "json", "yaml"])
def test_a_secret_is_not_shown_nor_is_one_that_was_overridden(
    explained: Any, rule: JsonObject, shown: bool, output: str
) -> None:
    documents = [
        make_gvk_policy({**rule, "allowOverride": True}, name="a", kind=POD),
        make_gvk_policy(rule, name="b", kind=POD, scope="project", unit="team-a"),
    ]

    code, out, err = explained(documents, "--project", "team-a", "-o", output, of="v1/Pod")

    assert (code, err) == (0, "")
    assert ("canary" in out) is shown
    assert ("(not shown)" in out) is not shown


def test_flags_of_a_secret_field_are_shown(explained: Any) -> None:
    policy = make_gvk_policy(make_rule("args", "allContainers", {"blocked": True}), kind=POD)

    _, out, _ = explained([policy], of="v1/Pod")

    assert out == "v1/Pod\nargs [allContainers]\n  blocked true (policy baseline, tenant)\n"


def test_items_stand_by_their_keys_with_what_holds_for_all_of_them(explained: Any) -> None:
    data = {"name": "data", "path": "/data", "mountPath": "/mnt"}
    asset = {
        "apiVersion": POLICY_API,
        "kind": "DataSource",
        "metadata": {"name": "scratch"},
        "spec": {"emptyDirVolume": {"path": "/scratch"}},
    }
    wide = make_workload_policy(
        name="wide",
        defaults={
            "environmentVariables": {"instances": [{"name": "TOKEN", "value": "canary"}]},
            "storage": {"hostPath": {"instances": [data], "attributes": {"readOnly": True}}},
        },
        rules={
            "environmentVariables": {"instances": {"canAdd": False, "locked": ["TOKEN"]}},
            "storage": {"hostPath": {"attributes": {"readOnly": {"canEdit": False}}}},
        },
        imposedAssets=["scratch"],
    )
    narrow = make_workload_policy(
        name="narrow",
        scope="project",
        unit="p",
        defaults={"storage": {"hostPath": {"instances": [{"name": "data", "path": "/other"}]}}},
    )

    _, out, err = explained([asset, wide, narrow], "--project", "p")

    assert err == ""
    assert "canary" not in out
    for part in (
        "environmentVariables [spec]\n"
        "  canAdd false (policy wide, tenant)\n"
        '  locked ["TOKEN"] (policy wide, tenant)\n'
        "environmentVariables[TOKEN] [spec]\n"
        "  default (not shown) (policy wide, tenant)\n",
        "storage.emptyDirVolume[scratch] [spec]\n  imposedAssets {",
        "storage.hostPath.readOnly [spec]\n"
        "  default true (policy wide, tenant)\n"
        "  canEdit false (policy wide, tenant)\n"
        "storage.hostPath[data].mountPath [spec]\n"
        "  default /mnt (policy wide, tenant)\n",
        "storage.hostPath[data].path [spec]\n"
        "  default /other (policy narrow, project p)\n"
        "    instead of /data (policy wide, tenant), which is wider\n",
    ):
        assert part in out


# -- bare documents and unusable input -----------------------------------------------------------


def test_a_bare_document_is_for_the_type_that_is_explained(explained: Any) -> None:
    bare = {"rules": {"parallelism": {"max": 3}}}

    code, out, _ = explained(
        [bare], "--scope", "project", "--unit", "p", "--project", "p", "-o", "json"
    )

    (row,) = rows(out, "parallelism")
    assert code == 0
    assert (row["rule"], row["value"], row["scope"], row["unit"]) == ("max", 3, "project", "p")


def test_a_narrower_rule_that_the_wider_one_keeps_out_is_told_apart(explained: Any) -> None:
    holding = make_gvk_policy(
        make_rule("replicas", "workload", {"max": 8}), name="broad", kind=DEPLOYMENT
    )
    narrow = make_gvk_policy(
        make_rule("replicas", "workload", {"max": 4}),
        name="narrow",
        kind=DEPLOYMENT,
        scope="project",
        unit="team-a",
    )

    _, text, _ = explained([holding, narrow], "--project", "team-a", of=DEPLOYMENT_TYPE)

    assert text.endswith(
        "  max 8 (policy broad, tenant)\n"
        "    without effect: 4 (policy narrow, project team-a), which is narrower\n"
    )


def test_nothing_in_force_is_said(explained: Any) -> None:
    text = explained([BASE], of=DEPLOYMENT_TYPE)
    as_json = explained([BASE], "-o", "json", of=DEPLOYMENT_TYPE)

    assert text == (0, "no policy concerns apps/v1/Deployment\n", "")
    assert as_json == (0, "[]\n", "")


def test_a_policy_that_is_only_tried_is_named_as_such(explained: Any) -> None:
    """The list is of what is in force: its shape is a promise to programs."""
    rule = make_rule("image", "allContainers", {"required": True})
    tried = [make_gvk_policy(rule, name=name, kind=DEPLOYMENT) for name in ("next", "later")]
    for policy, mode in zip(tried, ("Warn", "Audit"), strict=True):
        policy["spec"]["mode"] = mode
    elsewhere = make_gvk_policy(rule, kind=DEPLOYMENT, scope="project", unit="x", name="elsewhere")
    elsewhere["spec"]["mode"] = "Warn"
    now = make_gvk_policy(rule, name="now", kind=DEPLOYMENT)

    alone = explained([*tried, elsewhere], of=DEPLOYMENT_TYPE)
    as_json = explained([*tried, elsewhere], "-o", "json", of=DEPLOYMENT_TYPE)
    beside = explained([*tried, now], of=DEPLOYMENT_TYPE)

    only_tried = (
        "only tried, mode Audit: policy later, tenant\nonly tried, mode Warn: policy next, tenant\n"
    )
    assert alone == (0, f"no policy in force concerns apps/v1/Deployment\n{only_tried}", "")
    assert as_json == (0, "[]\n", "")
    assert beside[1] == (
        f"apps/v1/Deployment\n{only_tried}"
        "image [allContainers]\n  required true (policy now, tenant)\n"
    )


@pytest.mark.parametrize(
    ("of", "flags", "wanted"),
    [
        pytest.param(
            "trainin",
            [],
            "'trainin' is no native workload type and no group/version/Kind;"
            ' did you mean "training"?',
            id="type",
        ),
        pytest.param(
            "pytorchjob", [], 'did you mean "kubeflow.org/v1/PyTorchJob"?', id="name-of-a-kind"
        ),
        pytest.param(
            "DistributedTraining", [], 'did you mean "distributed"?', id="name-of-a-native-kind"
        ),
        pytest.param("a/b/c/d", [], "is not group/version/Kind", id="no-kind"),
        pytest.param("apps/v1/Deploymant", [], "no mapping for apps/v1/Deploymant; did", id="kind"),
        pytest.param(
            "apps/v1beta1/deployment",
            [],
            "no mapping for apps/v1beta1/deployment; there is one for apps/v1/Deployment",
            id="kind-of-another-version",
        ),
        pytest.param("training", ["--policies", "/nowhere"], "/nowhere: No such file", id="path"),
        pytest.param("training", ["--context", "x"], "goes with --kubernetes", id="no-cluster"),
        pytest.param(
            "training", ["--kubernetes", "--kubeconfig", "/none"], "cannot be read", id="kubeconfig"
        ),
    ],
)
def test_unusable_input_is_named(explained: Any, of: str, flags: list[str], wanted: str) -> None:
    code, out, err = explained([BASE], *flags, of=of)

    assert (code, out) == (2, "")
    assert wanted in err


def test_a_wrong_policy_ends_it_and_a_warning_does_not(explained: Any) -> None:
    """As for review: what is shown without that policy is not what a server would enforce."""
    wrong = make_workload_policy(name="wrong", rules={"imagge": {"required": True}})
    waiting = make_gvk_policy(kind={"group": "x.io", "version": "v1", "kind": "Y"}, name="waits")

    code, out, err = explained([BASE, wrong])
    assert (code, out) == (2, "")
    assert "unknown field" in err

    code, out, err = explained([BASE, waiting])
    assert code == 0
    assert "gatewright: warning: " in err


def test_a_name_cannot_break_a_line(explained: Any) -> None:
    policy = make_gvk_policy(
        make_rule("labels", "metadata", {"required": {"key": "a\nb"}}), kind=POD, name="x"
    )

    _, out, _ = explained([policy], of="v1/Pod")

    assert out.splitlines()[1] == "labels[a b] [metadata]"
