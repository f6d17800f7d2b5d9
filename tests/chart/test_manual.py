"""Commands that the manual prints are about the objects that the chart makes."""

from __future__ import annotations

import re

import pytest

from tests.chart.helm import CHART, Manifest, is_hook, of_kind, render, the_one

pytestmark = pytest.mark.slow

DOCS = CHART.parents[1] / "docs"

_SELECTOR = re.compile(r"(?:-l|--selector)[ =](app\.kubernetes\.io/name=\S+)")
_SECRET = re.compile(r"secret (gatewright\S*)")


def selectors() -> list[str]:
    """Those that are to find our Pods."""
    pages = [path.read_text() for path in sorted(DOCS.glob("*.md"))]
    return sorted({selector for text in pages for selector in _SELECTOR.findall(text)})


@pytest.fixture(scope="module")
def release() -> list[Manifest]:
    """With the names of a release `gatewright`, as all pages have it."""
    return render({"fullnameOverride": "gatewright"})


@pytest.mark.parametrize("selector", selectors())
def test_a_selector_finds_the_servers_and_not_the_pod_of_helm_test(
    release: list[Manifest], selector: str
) -> None:
    wanted = set(selector.split(","))

    def finds(manifest: Manifest) -> bool:
        labels = manifest["metadata"]["labels"]
        return wanted <= {f"{name}={value}" for name, value in labels.items()}

    (test,) = [each for each in of_kind(release, "Pod") if is_hook(each)]
    assert finds(the_one(release, "Deployment")["spec"]["template"])
    assert not finds(test)


def test_the_secret_of_the_certificate_has_its_name(release: list[Manifest]) -> None:
    containers = the_one(release, "Deployment")["spec"]["template"]["spec"]["containers"]
    named = set(_SECRET.findall((DOCS / "certificates.md").read_text()))

    assert named
    assert {f"--cert-secret={name}" for name in named} <= set(containers[0]["args"])
