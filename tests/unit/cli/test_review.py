"""`gatewright review`: exit codes and the JSON that programs read."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.builders import (
    DEPLOYMENT,
    make_container,
    make_gvk_policy,
    make_pod,
    make_rule,
    make_training,
    make_workload_policy,
)
from webhook.cli import main
from webhook.model.manifests import dump_yaml

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples"
LOOKALIKES = sorted((HERE / "lookalikes").glob("*.yaml"))

POLICY = make_gvk_policy(
    make_rule(
        "resourceLimits",
        "allContainers",
        {"max": {"key": "cpu", "value": 8}},
        {"default": {"key": "memory", "value": "1Gi"}},
    ),
    make_rule("args", "allContainers", {"default": ["--token=hunter2"]}),
    scope="project",
    unit="team-a",
)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "baseline.yaml").write_text(dump_yaml([POLICY]))
    return directory


def write(path: Path, *documents: Any) -> str:
    path.write_text(dump_yaml(documents))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    code = main(["review", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def bad_pod() -> dict[str, Any]:
    return make_pod(containers=[make_container(resources={"limits": {"cpu": "16"}})])


def test_the_json_has_exactly_the_promised_shape(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "jobs.yaml", bad_pod())

    code, out, _ = run(capsys, file, "--policies", policies, "-o", "json")

    (element,) = orjson.loads(out)
    assert code == 1
    assert list(element) == [
        *("source", "kind", "namespace", "name", "mapped", "allowed"),
        *("violations", "changes", "patch", "object", "warnings"),
    ]
    assert element["source"] == f"{file}#0"
    assert element["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert (element["namespace"], element["name"]) == ("team-a", "train")
    assert (element["mapped"], element["allowed"]) == (True, False)
    assert element["violations"] == [
        {
            "field": "resourceLimits[cpu]",
            "rule": "max",
            "path": "/spec/containers/0/resources/limits/cpu",
            "selector": "allContainers",
            "item": "main",
            "message": "above the maximum",
            "value": "16",
            "accepted": "≤ 8",
            "policy": "baseline",
            "scope": "project",
            "unit": "team-a",
        }
    ]
    assert element["changes"][0] == {
        "path": "/spec/containers/0/resources/limits/memory",
        "field": "resourceLimits[memory]",
        "rule": "default",
        "old": None,
        "new": "1Gi",
        "policy": "baseline",
        "scope": "project",
        "unit": "team-a",
    }
    assert element["object"]["spec"]["containers"][0]["args"] == ["--token=hunter2"]
    assert element["changes"][1]["new"] == "(not shown)"


def test_text_never_shows_what_is_secret(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    code, out, err = run(capsys, write(tmp_path / "a.yaml", bad_pod()), "--policies", policies)

    assert code == 1
    assert "resourceLimits[cpu] [allContainers main]: above the maximum, got 16; ≤ 8" in out
    assert "hunter2" not in out + err
    assert "\x1b" not in out
    assert out.splitlines()[-1].startswith("1 reviewed: 0 allowed")


@pytest.mark.parametrize("mode", ["Warn", "Audit"])
def test_what_a_policy_that_is_only_tried_would_do_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    policy = {**POLICY, "spec": {**POLICY["spec"], "mode": mode}}
    (tmp_path / "policies.yaml").write_text(dump_yaml([policy]))
    flags = ("--policies", tmp_path / "policies.yaml", write(tmp_path / "bad.yaml", bad_pod()))

    code, out, _ = run(capsys, *flags, "--quiet")
    _, data, _ = run(capsys, *flags, "-o", "json")

    assert code == 0
    assert "  ! resourceLimits[cpu] [allContainers main]: above the maximum, got 16; ≤ 8" in out
    [reviewed] = orjson.loads(data)
    assert reviewed["allowed"] is True
    assert [each for each in reviewed["warnings"] if "maximum" in each] == [
        "resourceLimits[cpu] [allContainers main]: above the maximum, got 16; ≤ 8;"
        " not enforced yet (policy baseline, project team-a)"
    ]


@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        pytest.param([], False, id="the-namespace-is-the-project"),
        pytest.param(["--namespace", "other"], True, id="another-namespace"),
        pytest.param(["--namespace", "other", "--project", "team-a"], False, id="project-named"),
    ],
)
def test_namespace_and_project_decide_what_holds(
    capsys: pytest.CaptureFixture[str],
    policies: Path,
    tmp_path: Path,
    flags: list[str],
    allowed: bool,
) -> None:
    file = write(tmp_path / "a.yaml", bad_pod())

    code, _, _ = run(capsys, file, "--policies", policies, *flags)

    assert code == (0 if allowed else 1)


def test_an_update_is_judged_against_the_old_file(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    old = write(tmp_path / "old.yaml", bad_pod())
    new = write(tmp_path / "new.yaml", {**bad_pod(), "status": {}})

    assert run(capsys, new, "--old", old, "--policies", policies)[0] == 0
    assert run(capsys, new, "--policies", policies)[0] == 1


def in_namespace(document: dict[str, Any], namespace: str | None) -> dict[str, Any]:
    metadata = {**document["metadata"], "namespace": namespace}
    return {**document, "metadata": {k: v for k, v in metadata.items() if v is not None}}


@pytest.mark.parametrize(
    ("new", "old", "flags", "code"),
    [
        pytest.param("team-a", "team-a", [], 0, id="same"),
        pytest.param("team-a", "team-b", [], 2, id="other"),
        pytest.param(None, "default", [], 0, id="none-is-default"),
        pytest.param(None, "team-a", ["-n", "team-a"], 0, id="the-flag-counts"),
    ],
)
def test_the_old_object_is_the_one_in_the_same_namespace(
    capsys: pytest.CaptureFixture[str],
    policies: Path,
    tmp_path: Path,
    new: str | None,
    old: str | None,
    flags: list[str],
    code: int,
) -> None:
    before = write(tmp_path / "old.yaml", in_namespace(bad_pod(), old))
    after = write(tmp_path / "new.yaml", in_namespace(bad_pod(), new))

    got, _, err = run(capsys, after, "--old", before, "--policies", policies, *flags)

    assert got == code
    assert ("--old has no Pod team-a/train" in err) is (code == 2)


def test_two_old_objects_of_one_name_are_told_apart_by_namespace(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    """Only the one of the same namespace excuses what is wrong."""
    good, bad = in_namespace(make_pod(), "team-b"), bad_pod()
    old = write(tmp_path / "old.yaml", bad, good)
    swapped = write(tmp_path / "swapped.yaml", make_pod(), in_namespace(bad_pod(), "team-b"))
    new = write(tmp_path / "new.yaml", bad)

    assert run(capsys, new, "--old", old, "--policies", policies)[0] == 0
    assert run(capsys, new, "--old", swapped, "--policies", policies)[0] == 1


def test_two_old_documents_of_one_object_are_an_error_that_names_both(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    old = write(tmp_path / "old.yaml", bad_pod(), make_pod())
    new = write(tmp_path / "new.yaml", bad_pod())

    code, _, err = run(capsys, new, "--old", old, "--policies", policies)

    assert code == 2
    assert f"{old}#1: --old has Pod team-a/train twice, also as {old}#0" in err


def test_patch_and_yaml_are_for_programs_too(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.yaml", make_pod())

    _, patch, _ = run(capsys, file, "--policies", policies, "-o", "patch")
    _, as_yaml, _ = run(capsys, file, "--policies", policies, "-o", "yaml")
    _, as_json, _ = run(capsys, file, "--policies", policies, "-o", "json")

    assert [operation["op"] for operation in orjson.loads(patch)] == ["add", "add"]
    assert yaml.safe_load(as_yaml) == orjson.loads(as_json)


def test_standard_input_is_a_file(
    capsys: pytest.CaptureFixture[str], policies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = io.TextIOWrapper(io.BytesIO(orjson.dumps(bad_pod())))
    monkeypatch.setattr(sys, "stdin", text)

    code, out, _ = run(capsys, "-", "--policies", policies)

    assert code == 1
    assert "stdin#0" in out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("a: [", "", id="broken-yaml"),
        pytest.param("a: 1\na: 2\n", "a", id="duplicate-key"),
        pytest.param("- 1\n", "is no Kubernetes object", id="no-object"),
        pytest.param("kind: Pod\n", "apiVersion and kind are needed", id="no-apiversion"),
    ],
)
def test_unusable_input_is_named_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)

    code, out, err = run(capsys, file)

    assert (code, out) == (2, "")
    assert "bad.yaml" in err
    assert message in err


def test_a_missing_file_or_directory_ends_with_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write(tmp_path / "a.yaml", make_pod())

    assert run(capsys, tmp_path / "none.yaml")[0] == 2
    assert run(capsys, file, "--policies", tmp_path / "none")[0] == 2


def test_policies_that_do_not_compile_end_with_2(
    capsys: pytest.CaptureFixture[str], policies: Path, tmp_path: Path
) -> None:
    """An answer without them would not be the server's."""
    write(
        policies / "broken.yaml", make_gvk_policy(make_rule("imag", "allContainers", {}), name="b")
    )

    code, out, err = run(capsys, write(tmp_path / "a.yaml", make_pod()), "--policies", policies)

    assert (code, out) == (2, "")
    assert "broken.yaml#0: spec.rules[0].field" in err


def test_a_mapping_that_fails_leaves_the_verdict_open(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policies = write(
        tmp_path / "policies.yaml",
        {
            "apiVersion": "policy.gatewright.io/v1alpha1",
            "kind": "SpecMapping",
            "metadata": {"name": "acme"},
            "spec": {
                "workloadType": {"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
                "specSelectors": {
                    "meta": {
                        "query": 'if .spec.fail then error("x") else .metadata end',
                        "fieldGroups": ["metadata"],
                    }
                },
            },
        },
        make_gvk_policy(
            make_rule("labels", "meta", {"required": {"key": "a"}}),
            kind={"group": "acme.io", "version": "v1", "kind": "AcmeJob"},
        ),
    )
    job = {"apiVersion": "acme.io/v1", "kind": "AcmeJob", "metadata": {"labels": {"a": "b"}}}
    file = write(tmp_path / "a.yaml", job, {**job, "spec": {"fail": True}})

    code, out, _ = run(capsys, file, "--policies", policies, "-o", "json")

    good, bad = orjson.loads(out)
    assert code == 2
    assert good["allowed"] is True
    assert bad["allowed"] is None
    assert "failed" in bad["error"]


def test_a_bare_policy_is_taken_with_type_and_scope(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy = tmp_path / "bare.yaml"
    policy.write_text("defaults: null\nrules:\n  compute:\n    gpuDevicesRequest: {max: 2}\n")
    file = write(tmp_path / "a.yaml", make_training(compute={"gpuDevicesRequest": 3}))
    flags = ("--workload-type", "training", "--scope", "project", "--unit", "team-a")

    assert run(capsys, file, "--policies", policy, *flags)[0] == 1
    assert run(capsys, file, "--policies", policy)[0] == 2
    assert run(capsys, file, "--policies", policy, "--scope", "tenant")[0] == 2
    assert (
        run(capsys, file, "--policies", policy, "--workload-type", "x", "--scope", "tenant")[0] == 2
    )


@pytest.mark.parametrize("file", LOOKALIKES, ids=lambda path: path.stem)
def test_workloads_of_many_kinds_pass_through(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    """Mapped kinds are judged; the others are reported as not mapped, and allowed."""
    code, out, err = run(capsys, file, "--policies", EXAMPLES / "policies", "-o", "json")

    assert (code, err) == (0, "")
    for element in orjson.loads(out):
        mapped = element["kind"]["kind"] not in ("Service", "Queue")
        assert element["mapped"] is mapped
        assert element["allowed"] is True
        assert bool(element["patch"]) <= mapped


def test_examples_compile_and_are_decided_as_they_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = sorted((EXAMPLES / "workloads").glob("*.yaml"))

    _, out, _ = run(capsys, *files, "--policies", EXAMPLES / "policies", "-o", "json")

    denied = [element["name"] for element in orjson.loads(out) if not element["allowed"]]
    assert denied == ["peek", "gpt-everything", "hurry"]
    assert main(["lint", "--strict", str(EXAMPLES / "policies")]) == 0


class TestLint:
    """`gatewright lint`."""

    def lint(self, capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str]:
        code = main(["lint", *map(str, args)])
        return code, capsys.readouterr().out

    def test_an_error_names_file_document_and_path(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        write(
            tmp_path / "p.yaml",
            make_gvk_policy(),
            make_workload_policy(rules={"imag": {"required": True}}),
        )

        code, out = self.lint(capsys, tmp_path)

        assert code == 1
        assert 'p.yaml#1: error: spec.rules.imag: unknown field; did you mean "image"?' in out

    def test_all_paths_are_one_set(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        one = write(tmp_path / "a.yaml", make_workload_policy(rules={"image": {"required": True}}))
        two = write(
            tmp_path / "b.yaml",
            make_workload_policy(rules={"image": {"required": True}}, name="b"),
        )

        assert self.lint(capsys, one)[0] == 0
        assert self.lint(capsys, one, two)[0] == 1

    def test_a_warning_counts_only_if_strict(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """A reference that can't be found, and a default that never acts."""
        kind = {"group": "acme.io", "version": "v1", "kind": "AcmeJob"}
        write(
            tmp_path / "a.yaml",
            make_gvk_policy(kind=kind, name="a"),
            make_gvk_policy(
                make_rule("replicas", "workload", {"default": 2}), kind=DEPLOYMENT, name="b"
            ),
        )

        code, out = self.lint(capsys, tmp_path)

        assert code == 0
        assert "warning: spec.workloadType: no mapping for acme.io/v1/AcmeJob" in out
        assert "use set" in out
        assert self.lint(capsys, "--strict", tmp_path)[0] == 1

    def test_one_broken_file_does_not_hide_the_others(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "a.yaml").write_text("a: [\n")
        write(tmp_path / "b.yaml", make_gvk_policy(make_rule("imag", "allContainers", {})))

        code, out = self.lint(capsys, tmp_path)

        assert code == 1
        assert "a.yaml: error: line" in out
        assert "b.yaml#0: error: spec.rules[0].field" in out

    def test_a_missing_path_ends_with_2(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert self.lint(capsys, tmp_path / "none")[0] == 2


@pytest.mark.slow
def test_crds_are_printed_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0

    crds = list(yaml.safe_load_all(capsys.readouterr().out))

    names = [crd["metadata"]["name"] for crd in crds]
    assert "gvkpolicies.policy.gatewright.io" in names
    assert "trainings.workload.gatewright.io" in names
    assert {crd["kind"] for crd in crds} == {"CustomResourceDefinition"}
