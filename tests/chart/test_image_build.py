"""The image as its Dockerfile makes it, step by step and without an engine; then it is used."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distributions
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from packaging.utils import canonicalize_name

from tests.builders import make_pod
from tests.chart.dockerfile import Image, build
from tests.chart.test_image import ROOT, RUNTIME, read_pins
from tests.controlplane.processes import start_process
from tests.controlplane.run import free_port
from tests.controlplane.wait import wait_until
from tests.unit.admission.builders import make_review
from webhook.cli import COMMANDS

pytestmark = pytest.mark.slow

# Of the environment, without the Python below it. It has 110 MiB, and more than a third of them is
# kubernetes-asyncio.
SIZE_MIB = 125
# The server is ready within a second; the rest is for a machine that does other things too.
START_S = 30.0
# Root may write anywhere, unless it has none of its capabilities.
UNPRIVILEGED = (
    [shutil.which("setpriv") or "setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    if os.geteuid() == 0
    else []
)
EPOCH = 1_700_000_000
MOUNTED = Path("etc/gatewright/policies")


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the image is built: one for all processes of this run."""
    own = tmp_path_factory.getbasetemp()
    found = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "image"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture(scope="session")
def image(directory: Path) -> Image:
    """The image, read-only but for /run/gatewright, with the examples mounted as its policies."""
    made = directory / "image.pickle"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            fresh = build(ROOT, directory, {"SOURCE_DATE_EPOCH": str(EPOCH)})
            shutil.copytree(ROOT / "examples" / "policies", fresh.root / MOUNTED)
            make_read_only(fresh.root, but=fresh.root / "run" / "gatewright")
            made.write_bytes(pickle.dumps(fresh))
    found: Image = pickle.loads(made.read_bytes())
    return found


def make_read_only(root: Path, *, but: Path) -> None:
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink() and path != but:
            path.chmod(path.stat().st_mode & ~0o222)


def run(image: Image, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*UNPRIVILEGED, *command],
        cwd=image.workdir,
        env=image.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def site_packages(image: Image) -> Path:
    (found,) = (image.root / "opt/gatewright").glob("lib/python*/site-packages")
    return found


def installed(image: Image) -> dict[str, Distribution]:
    return {
        canonicalize_name(each.metadata["Name"]): each
        for each in distributions(path=[str(site_packages(image))])
    }


def bill(image: Image) -> dict[str, Any]:
    """The list of parts that the image carries."""
    text = (image.root / "usr/share/doc/gatewright/sbom.cdx.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def parts_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its Python packages by name, the server with them."""
    every = [document["metadata"]["component"], *document["components"]]
    return {each["name"]: each for each in every if each["purl"].startswith("pkg:pypi/")}


def test_it_has_what_is_pinned_and_the_server_and_nothing_else(image: Image) -> None:
    pinned = {name: version for name, (version, _) in read_pins(RUNTIME).items()}
    found = {name: each.version for name, each in installed(image).items()}

    assert found.pop("gatewright") == "0.1.0"
    assert found == pinned


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        pytest.param(
            r"(pip|setuptools|wheel|ensurepip)(-.*)?|pip[\d.]*", "installer", id="installer"
        ),
        pytest.param(r"tests?|conftest\.py|.*_test\..*", "test", id="tests"),
        pytest.param(
            r"(g?cc|c\+\+|g\+\+|clang|ld|as|make|go|rustc)(-.*)?", "compiler", id="compiler"
        ),
        pytest.param(r"constraints.*|sbom\.py|Dockerfile|.*\.whl", "tool", id="what-builds"),
        pytest.param(r".*\.(pem|key|crt)", "key", id="keys"),
    ],
)
def test_it_has_no(image: Image, pattern: str, what: str) -> None:
    at = [path.relative_to(image.root) for path in image.root.rglob("*")]
    found = {
        str(path)
        for path in at
        if re.fullmatch(pattern, path.name) and path.parts[:2] != ("run", "gatewright")
    }
    # The authorities that everybody trusts.
    known = {each for each in found if each.endswith("certifi/cacert.pem")}

    assert at
    assert found - known == set(), what


def test_it_is_small(image: Image) -> None:
    files = [path for path in (image.root / "opt").rglob("*") if not path.is_symlink()]
    size_mib = sum(path.stat().st_size for path in files if path.is_file()) / 2**20
    print(f"{size_mib:.0f} MiB in {len(files)} files")

    assert 20 < size_mib < SIZE_MIB


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        pytest.param("gatewright", ["--version"], "gatewright 0.1.0", id="version"),
        pytest.param("kubectl-gatewright", ["--help"], "kubectl gatewright", id="plugin"),
        *(
            pytest.param("gatewright", [name, "--help"], f"usage: gatewright {name}", id=name)
            for name in COMMANDS
        ),
    ],
)
def test_its_command_starts(image: Image, program: str, arguments: list[str], said: str) -> None:
    done = run(image, image.root / "opt/gatewright/bin" / program, *arguments)

    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_its_parts_fit_together(image: Image) -> None:
    """No requirement that is not there, or there in a version that doesn't do."""
    uv = Path(sys.executable).with_name("uv")
    python = image.root / "opt/gatewright/bin/python"
    done = subprocess.run(
        [uv, "pip", "check", "--python", python], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_it_reviews_what_is_mounted(image: Image) -> None:
    policies = image.root / MOUNTED
    workload = next((ROOT / "examples" / "workloads").glob("*.yaml"))
    done = run(image, *image.command("review", "--policies", str(policies), str(workload)))

    assert done.returncode in {0, 1}, done.stderr
    assert done.stdout


def test_the_reconciler_says_what_it_lacks(image: Image) -> None:
    """The image's settings are those of the server; the reconciler must not trip over them."""
    done = run(image, *image.command("reconcile"))

    assert done.returncode == 2
    assert done.stderr.startswith("gatewright: ")
    assert done.stderr.count("\n") == 1


def test_nothing_else_can_be_written(image: Image) -> None:
    """Without this the tests below would show nothing."""
    refused = run(image, "/bin/sh", "-c", f": > {image.root}/opt/gatewright/new")
    allowed = run(image, "/bin/sh", "-c", f": > {image.root}/run/gatewright/new")

    assert refused.returncode != 0
    assert "denied" in refused.stderr
    assert allowed.returncode == 0


@contextmanager
def serving(image: Image, log: Path, **settings: str) -> Iterator[tuple[int, int]]:
    """What the image does by itself, on two free ports of this machine: yields them."""
    port, ops_port = free_port(), free_port()
    addresses = {
        "GATEWRIGHT_LISTEN": f"127.0.0.1:{port}",
        "GATEWRIGHT_OPS_LISTEN": f"127.0.0.1:{ops_port}",
    }
    process = start_process(
        "the image",
        [*UNPRIVILEGED, *image.command()],
        log=log,
        env={**image.environment(), **addresses, **settings},
        cwd=image.workdir,
    )

    def is_ready() -> bool:
        process.require_running()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_until(is_ready, START_S, "the image")
        yield port, ops_port
    finally:
        process.stop(grace_s=30.0)
    assert process.status == 0, process.log_tail()


def review(port: int, authority: Path) -> dict[str, Any]:
    request = urllib.request.Request(
        f"https://localhost:{port}/validate",
        data=json.dumps(make_review(object=make_pod())).encode(),
        headers={"Content-Type": "application/json"},
    )
    trust = ssl.create_default_context(cafile=str(authority))
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
        found: dict[str, Any] = json.load(answer)["response"]
        return found


def test_it_serves_where_only_the_certificates_can_be_written(image: Image, tmp_path: Path) -> None:
    before = listing(image)
    with serving(image, tmp_path / "log") as (port, _):
        answer = review(port, image.root / "run/gatewright/certs/ca.crt")

    assert answer["allowed"] is True
    assert listing(image) == before


def test_it_serves_with_a_certificate_of_ones_own_where_nothing_can(
    image: Image, tmp_path: Path
) -> None:
    made = run(image, *image.command("certs", "make", "--dir", str(tmp_path / "own")))
    assert made.returncode == 0, made.stderr
    own = {
        "GATEWRIGHT_TLS_CERT": str(tmp_path / "own" / "tls.crt"),
        "GATEWRIGHT_TLS_KEY": str(tmp_path / "own" / "tls.key"),
        "GATEWRIGHT_CERT_DIR": str(image.root / "nowhere"),
    }
    with serving(image, tmp_path / "log", **own) as (port, _):
        answer = review(port, tmp_path / "own" / "ca.crt")

    assert answer["allowed"] is True
    assert not (image.root / "nowhere").exists()


def listing(image: Image) -> set[tuple[str, int, int]]:
    """Every file but those at /run/gatewright, with size and time of its last change."""
    found = set()
    for path in image.root.rglob("*"):
        under = path.relative_to(image.root)
        if under.parts[:2] != ("run", "gatewright"):
            state = path.lstat()
            found.add((str(under), state.st_size, state.st_mtime_ns))
    return found


def test_the_list_of_parts_names_each_with_its_version_and_licence(image: Image) -> None:
    parts = parts_of(bill(image))
    found = installed(image)

    assert {name: each["version"] for name, each in parts.items()} == {
        name: each.version for name, each in found.items()
    }
    # Ours says nothing yet.
    assert [name for name, each in parts.items() if not each.get("licenses")] in (
        [],
        ["gatewright"],
    )


def test_the_list_of_parts_has_the_hash_of_the_wheel_that_was_installed(
    image: Image, directory: Path
) -> None:
    """One of those that are pinned; and of the server that of the wheel which the build left."""
    pins = read_pins(RUNTIME)
    hashes = {
        name: [each["content"] for each in part["hashes"] if each["alg"] == "SHA-256"]
        for name, part in parts_of(bill(image)).items()
    }
    (wheel,) = (directory / "stages" / "build" / "wheels").glob("gatewright-*.whl")

    assert hashes.pop("gatewright") == [hashlib.sha256(wheel.read_bytes()).hexdigest()]
    assert hashes.keys() == pins.keys()
    assert {
        name: got for name, got in hashes.items() if len(got) != 1 or got[0] not in pins[name][1]
    } == {}


def test_every_part_is_there_because_the_server_needs_it(image: Image) -> None:
    document = bill(image)
    needs = {each["ref"]: each.get("dependsOn", []) for each in document["dependencies"]}
    reached: set[str] = set()
    waiting = [document["metadata"]["component"]["bom-ref"]]
    while waiting:
        part = waiting.pop()
        if part not in reached:
            reached.add(part)
            waiting += needs[part]

    assert {each["bom-ref"] for each in document["components"]} - reached == set()


def test_the_list_of_parts_is_cyclonedx(image: Image) -> None:
    document = bill(image)

    assert document["bomFormat"] == "CycloneDX"
    assert list(cyclonedx_validator().iter_errors(document)) == []
    # A validator that lets everything pass would show nothing.
    assert not cyclonedx_validator().is_valid({**document, "components": [{"name": "typeless"}]})


def test_a_second_build_lists_the_same(image: Image, directory: Path, tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, ROOT / ".ci" / "sbom.py", "--output", tmp_path / "again"),
            *("--environment", image.root / "opt/gatewright"),
            *("--wheels", directory / "stages" / "build" / "wheels"),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        check=True,
    )

    assert json.loads((tmp_path / "again").read_text()) == bill(image)


def cyclonedx_validator() -> Any:
    resources = files("cyclonedx.schema") / "_res"
    names = ("bom-1.6.SNAPSHOT", "spdx.SNAPSHOT", "jsf-0.82.SNAPSHOT")
    schema, *others = [
        json.loads((resources / f"{name}.schema.json").read_text()) for name in names
    ]
    # They name each other by the names of their files.
    of_schema = "http://cyclonedx.org/schema"
    registry = jsonschema_rs.Registry(
        [
            (f"{of_schema}/{name}.schema.json", text)
            for name, text in zip(names[1:], others, strict=True)
        ]
    )
    return jsonschema_rs.validator_for(schema, registry=registry)
