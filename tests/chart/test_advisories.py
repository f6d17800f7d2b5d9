"""No pinned version, and none that may be installed, is one that an advisory warns of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.chart.test_image import BUILDING, PINNED, PROJECT, ROOT, RUNTIME, read_pins

LIST = tomllib.loads((ROOT / ".ci" / "advisories.toml").read_text())
ADVISORIES: list[dict[str, Any]] = LIST["advisories"]


def warned_of(versions: Mapping[str, str]) -> list[str]:
    """The advisories that are about one of *versions*, which are told by package."""
    return [
        f"{advisory['package']} {version}: {', '.join(advisory['ids'])}"
        for advisory in ADVISORIES
        if (version := versions.get(advisory["package"])) is not None
        and any(
            SpecifierSet(each).contains(version, prereleases=True) for each in advisory["affected"]
        )
    ]


def pinned_in(path: Path) -> dict[str, str]:
    return {name.lower(): version for name, (version, _) in read_pins(path).items()}


def oldest_allowed() -> dict[str, str]:
    """Of each direct dependency the oldest version that pyproject.toml takes."""
    oldest = {}
    for line in PROJECT["dependencies"]:
        requirement = Requirement(line)
        (floor,) = requirement.specifier
        assert floor.operator == ">="
        oldest[requirement.name] = floor.version
    return oldest


@pytest.mark.parametrize("path", [PINNED, RUNTIME, BUILDING], ids=lambda path: path.name)
def test_no_pinned_version_is_one_that_is_warned_of(path: Path) -> None:
    assert warned_of(pinned_in(path)) == []


def test_no_version_that_may_be_installed_is_one_that_is_warned_of() -> None:
    """Who installs the package has no pins."""
    assert warned_of(oldest_allowed()) == []


def test_every_library_of_the_image_was_looked_up() -> None:
    assert sorted(pinned_in(RUNTIME)) == sorted(LIST["looked_up"])
    assert isinstance(LIST["looked_up_on"], date)


@pytest.mark.slow
@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda advisory: advisory["ids"][-1])
def test_a_version_that_is_warned_of_is_found(advisory: dict[str, Any], tmp_path: Path) -> None:
    """A pin as it would stand in the file, one step within the range."""
    package, ids = advisory["package"], ", ".join(advisory["ids"])
    bound = next(each for each in SpecifierSet(advisory["affected"][-1]) if each.operator == "<")
    *head, last = re.sub(r"(\.0)+$", "", bound.version).split(".")
    within = ".".join([*head, str(int(last) - 1), "9999"])

    def is_found(version: str) -> bool:
        pins = tmp_path / "pins.txt"
        pins.write_text(f"{package}=={version} \\\n    --hash=sha256:{'0' * 64}\n")
        return f"{package} {version}: {ids}" in warned_of(pinned_in(pins))

    assert is_found(within)
    assert not is_found(bound.version)
