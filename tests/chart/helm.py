"""The chart as Helm renders it, without a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.controlplane.build import provide_binaries
from tests.controlplane.recipes import helm_recipe

CHART = Path(__file__).parents[2] / "charts" / "gatewright"
EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))

Major = Literal[3, 4]
MAJORS: tuple[Major, ...] = (3, 4)
RELEASE, NAMESPACE = "gate", "platform"

# A tenth of the time, where there is a C library; nineteen CRDs are 7,000 lines.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Values = dict[str, Any]
Manifest = dict[str, Any]


@cache
def helm_binary(major: Major) -> Path:
    return provide_binaries(helm_recipe(major)) / "helm"


def run_helm(major: Major, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    # Nothing of the user's: neither his repositories nor his cluster.
    environment = {"HOME": "/nonexistent", "KUBECONFIG": "/dev/null"}
    return subprocess.run(
        [helm_binary(major), *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def template(
    major: Major, values: Values | None = None, *flags: str
) -> subprocess.CompletedProcess[str]:
    """How `helm template` ended, with *values* over the chart's own."""
    return run_helm(
        major,
        *("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", "-", *flags),
        stdin=json.dumps(values or {}),
    )


def render(values: Values | None = None, *flags: str, major: Major = 4) -> list[Manifest]:
    """All manifests, tests included."""
    done = template(major, values, *flags)
    assert done.returncode == 0, done.stderr
    return parse_manifests(done.stdout)


def parse_manifests(text: str) -> list[Manifest]:
    """In an order that doesn't depend on the version of Helm."""
    found = [each for each in yaml.load_all(text, Loader=_LOADER) if each]
    return sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))


@cache
def _rendered(path: Path | None, major: Major) -> str:
    values = yaml.safe_load(path.read_text()) if path else {}
    return json.dumps(render(values, major=major))


def render_example(path: Path | None, major: Major = 4) -> list[Manifest]:
    """With the values in *path*; None: as it is."""
    found: list[Manifest] = json.loads(_rendered(path, major))
    return found


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def the_one(manifests: Iterable[Manifest], kind: str) -> Manifest:
    """The only one of *kind* that is no part of `helm test`."""
    (found,) = [each for each in of_kind(manifests, kind) if not is_hook(each)]
    return found


def is_hook(manifest: Manifest) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
