"""Which files `gatewright review` reads: as kubectl takes them, and as a hook gives them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.builders import make_container, make_gvk_policy, make_pod, make_rule
from webhook.cli import main
from webhook.model.manifests import dump_yaml

ROOT = Path(__file__).parents[3]
POLICY = make_gvk_policy(make_rule("image", "allContainers", {"pattern": ["ghcr.io/*"]}))

VALUES = "image:\n  repository: docker.io/x\n"
CHART = "apiVersion: v2\nname: web\nversion: 1.0.0\n"
KUSTOMIZATION = (
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
)
TEMPLATE = 'apiVersion: v1\nkind: Pod\nmetadata:\n  {{- include "labels" . | nindent 4 }}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("policy.yaml").write_text(dump_yaml([POLICY]))
    return tmp_path


def write(path: str, image: str = "ghcr.io/x") -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(dump_yaml([make_pod(containers=[make_container(image=image)])]))
    return path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[str], str]:
    """Exit code, the sources that were reviewed, and what was complained about."""
    code = main(["review", "--policies", "policy.yaml", "-o", "json", *args])
    told = capsys.readouterr()
    sources = [each["source"] for each in orjson.loads(told.out)] if told.out else []
    return code, sources, told.err


@pytest.mark.parametrize(
    ("flags", "sources"),
    [
        pytest.param(["-f", "d"], ["d/a.yaml#0"], id="a-directory-is-not-descended"),
        pytest.param(["-R", "-f", "d"], ["d/a.yaml#0", "d/e/b.yaml#0"], id="unless-asked-for"),
        pytest.param(["d"], ["d/a.yaml#0", "d/e/b.yaml#0"], id="by-position-it-is"),
        pytest.param(
            ["--filename", "d/e/b.yaml", "-f", "d/a.yaml"],
            ["d/e/b.yaml#0", "d/a.yaml#0"],
            id="several",
        ),
        pytest.param(
            ["d/e", "-n", "x", "d/a.yaml"], ["d/e/b.yaml#0", "d/a.yaml#0"], id="around-flags"
        ),
        pytest.param(["d/e", "-f", "d"], ["d/e/b.yaml#0", "d/a.yaml#0"], id="both-ways"),
    ],
)
def test_files_are_named_as_for_kubectl(
    capsys: pytest.CaptureFixture[str], here: Path, flags: list[str], sources: list[str]
) -> None:
    write("d/a.yaml")
    write("d/e/b.yaml")

    assert run(capsys, *flags)[:2] == (0, sources)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param([], "name a FILE, or give --running", id="nothing"),
        pytest.param(["-f", "https://example.com/a.yaml"], "pipe what they give", id="an-address"),
        pytest.param(["-f", "empty"], "holds no YAML or JSON file", id="an-empty-directory"),
        pytest.param(["-f", "a.yaml", "--context", "x"], "goes with --kubernetes", id="no-cluster"),
        *[
            pytest.param(["--running", *flags], f"{flags[0]} does not go with", id=flags[0])
            for flags in (
                ["--department", "x"],
                ["--operation", "CREATE"],
                ["--old", "a.yaml"],
                ["--user", "ada"],
            )
        ],
        pytest.param(
            ["--excluded-namespaces", "x", "a.yaml"], "goes with --running", id="nothing-runs"
        ),
        pytest.param(["--running", "--manifests-only"], "goes with a FILE", id="no-manifests"),
        pytest.param(
            ["--running", "--project", "x"], "does not go with --running", id="another-place"
        ),
        pytest.param(
            ["--kubernetes", "a.yaml", "--kubeconfig", "none"], "cannot be read", id="no-kubeconfig"
        ),
    ],
)
def test_what_can_not_be_read_is_told_and_ends_with_2(
    capsys: pytest.CaptureFixture[str], here: Path, flags: list[str], message: str
) -> None:
    write("a.yaml")
    Path("empty").mkdir()

    code, sources, err = run(capsys, *flags)

    assert (code, sources) == (2, [])
    assert message in err


@pytest.mark.parametrize(
    "flags", [["a.yaml", "--oops"], ["a.yaml", "--oops", "b.yaml"]], ids=["alone", "with-a-value"]
)
def test_a_flag_that_is_none_is_an_error(here: Path, flags: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["review", *flags])

    assert ended.value.code == 2


# -- the hook --------------------------------------------------------------------------------------


def hook(name: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
        if each["id"] == name
    ]
    return dict(found)


def run_hook(capsys: pytest.CaptureFixture[str], *files: str) -> tuple[int, str, str]:
    """As pre-commit does: the entry, the arguments of the user's configuration, the files."""
    command, *words = hook("gatewright-review")["entry"].split()
    assert command == "gatewright"
    code = main([*words, "--policies", "policy.yaml", *files])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_hook_passes_over_what_is_no_manifest(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    """A repository holds YAML of all sorts, and pre-commit gives whatever has changed."""
    files = {
        "values.yaml": VALUES,
        "Chart.yaml": CHART,
        "kustomization.yaml": KUSTOMIZATION,
        "templates/pod.yaml": TEMPLATE,
        "empty.yaml": "# nothing\n",
        ".github/workflows/ci.yaml": "on: push\njobs: {}\n",
        "list.yaml": "- a\n- b\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)

    code, out, err = run_hook(capsys, *files, write("good.yaml"))

    assert code == 0
    assert out.endswith("2 reviewed: 2 allowed (1 of them not mapped), 0 denied, 0 failed\n")
    assert "passed over, a template: templates/pod.yaml" in err
    assert "passed over, no Kubernetes object: values.yaml#0" in err


def test_a_hook_fails_for_what_is_refused(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    files = [write(f"{n}.yaml", "docker.io/x" if n == 150 else "ghcr.io/x") for n in range(200)]

    code, out, _ = run_hook(capsys, *files)

    assert code == 1
    assert "150.yaml#0 Pod team-a/train: denied" in out
    assert "199 allowed" in out
    assert "149.yaml" not in out


def test_a_hook_fails_for_a_manifest_that_can_not_be_read(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    Path("broken.yaml").write_text("apiVersion: v1\nkind: [Pod\n")

    code, _, err = run_hook(capsys, "broken.yaml")

    assert code == 2
    assert "broken.yaml" in err


def test_the_hook_of_policies_lints_them_as_one_set(
    capsys: pytest.CaptureFixture[str], here: Path
) -> None:
    lint = hook("gatewright-lint")
    assert lint["pass_filenames"] is False

    assert main([*lint["entry"].split()[1:], "policy.yaml"]) == 0


def test_the_executable_of_the_plugin_is_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text()

    assert 'kubectl-gatewright = "webhook.cli:plugin"' in text


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["review", "-f", "a.yaml"], id="review"),
        pytest.param(["explain", "--workload-type", "training"], id="explain"),
    ],
)
def test_the_plugin_asks_a_cluster_without_being_told(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("a.yaml")
    monkeypatch.setattr(sys, "argv", ["kubectl-gatewright", *command, "--kubeconfig", "none"])
    from webhook.cli import plugin

    assert plugin() == 2
    assert "none: cannot be read" in capsys.readouterr().err
