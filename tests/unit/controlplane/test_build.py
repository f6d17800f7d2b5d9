"""Finding and building the binaries, with a stand-in for Go: a real build takes minutes."""

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.controlplane.build import cache_directory, format_duration, provide_binaries
from tests.controlplane.errors import BuildError
from tests.controlplane.recipes import (
    Recipe,
    control_plane_recipe,
    every_recipe,
    helm_recipe,
    prometheus_recipe,
    read_module_version,
)

GO_MOD = """\
module example

go 1.26.0

tool (
	go.etcd.io/etcd/server/v3
	k8s.io/kubernetes/cmd/kubectl
)

require (
	go.etcd.io/etcd/server/v3 v3.6.8 // indirect
	k8s.io/api v0.36.3 // indirect
)

require k8s.io/kubernetes v1.36.3

replace k8s.io/api => k8s.io/api v0.36.3
"""

RECIPE = control_plane_recipe(GO_MOD, "linux-x86_64")
BINARIES = tuple(RECIPE.binaries)

PROMETHEUS_MOD = """\
module example

go 1.26.0

require github.com/prometheus/prometheus v0.316.0
"""

# Answers `go version`, lists one package, and "builds" the programs of the module that it
# is called in, under the names that Go gives them. Each build leaves a line in the file
# builds.
FAKE_GO = """\
#!/bin/sh
here=$(dirname "$0")
case "$1" in
version) echo "go version go1.99.1 linux/amd64" ;;
list) echo "go: downloading example v1" >&2; echo example ;;
build)
    echo built >> "$here/builds"
    [ -e "$here/broken" ] && { echo "example.go:1: no such thing"; exit 1; }
    shift; [ "$1" = -v ] && shift; [ "$1" = -o ] && shift
    programs="server kube-apiserver kube-controller-manager kubectl"
    grep -q "^module .*prometheus" go.mod && programs="prometheus promtool"
    grep -q "^module .*helm" go.mod && programs=helm
    for name in $programs; do
        echo > "$1$name"; chmod +x "$1$name"
    done ;;
esac
"""


class Machine:
    """An empty home directory, and a PATH with the stand-in for Go alone."""

    def __init__(self, root: Path) -> None:
        self.programs = root / "programs"
        self.programs.mkdir()
        go = self.programs / "go"
        go.write_text(FAKE_GO)
        go.chmod(0o755)
        self.home = root / "home"
        self.home.mkdir()
        self.environ = {"HOME": str(self.home), "PATH": f"{self.programs}:/usr/bin:/bin"}
        self.reports: list[str] = []

    def provide(self, recipe: Recipe | None = None) -> Path:
        return provide_binaries(recipe or control_plane_recipe(), self.environ, self.reports.append)

    @property
    def builds(self) -> int:
        log = self.programs / "builds"
        return len(log.read_text().splitlines()) if log.exists() else 0

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "gatewright" / "controlplane"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def make_assets(directory: Path, *, without: str = "") -> Path:
    directory.mkdir()
    for name in BINARIES:
        if name != without:
            (directory / name).touch(mode=0o755)
    return directory


@pytest.mark.parametrize(
    ("module", "want"),
    [
        pytest.param("k8s.io/kubernetes", "v1.36.3", id="one-line-require"),
        pytest.param("k8s.io/api", "v0.36.3", id="block-of-requires"),
        pytest.param("go.etcd.io/etcd/server/v3", "v3.6.8", id="a-tool-of-the-same-name"),
    ],
)
def test_a_modules_version_is_read_from_go_mod(module: str, want: str) -> None:
    assert read_module_version(GO_MOD, module) == want


def test_a_module_that_go_mod_does_not_require_is_an_error() -> None:
    with pytest.raises(BuildError, match=r"does not require helm\.sh/helm"):
        read_module_version(GO_MOD, "helm.sh/helm")


def test_the_server_is_built_with_its_own_version() -> None:
    """A kube-apiserver that calls itself v0.0.0 refuses to start some features."""
    flags = RECIPE.flags[-1]

    assert "version.gitVersion=v1.36.3 " in flags
    assert "version.gitMajor=1 " in flags
    assert flags.endswith("version.gitMinor=36")


def test_the_key_names_version_and_platform() -> None:
    assert re.fullmatch(r"kubernetes-v1\.36\.3-linux-x86_64-[0-9a-f]{12}", RECIPE.key)


def test_the_same_recipe_has_the_same_key() -> None:
    assert RECIPE.key == replace(RECIPE).key


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(RECIPE, platform="darwin-arm64"), id="platform"),
        pytest.param(replace(RECIPE, go_mod=GO_MOD + "// patched\n"), id="go-mod"),
        pytest.param(replace(RECIPE, tags=("-tags", "x")), id="tags"),
        pytest.param(
            control_plane_recipe(GO_MOD.replace("v1.36.3", "v1.36.4"), "linux-x86_64"),
            id="kubernetes-version",
        ),
    ],
)
def test_another_recipe_has_another_key(other: Recipe) -> None:
    assert other.key != RECIPE.key


def test_every_library_of_kubernetes_has_the_version_that_belongs_to_it() -> None:
    """One forgotten on an upgrade would compile against the wrong half, or not at all."""
    recipe = control_plane_recipe()
    version = read_module_version(recipe.go_mod, "k8s.io/kubernetes")
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", recipe.go_mod, re.MULTILINE)

    assert len(replaced) == 33
    assert {target for _, target, _ in replaced} == {module for module, _, _ in replaced}
    assert {of for _, _, of in replaced} == {version.replace("v1.", "v0.")}


@pytest.mark.parametrize(
    ("recipe", "module"),
    [
        pytest.param(control_plane_recipe(), "k8s.io/kubernetes", id="kubernetes"),
        pytest.param(control_plane_recipe(), "go.etcd.io/etcd/server/v3", id="etcd"),
        pytest.param(prometheus_recipe(), "github.com/prometheus/prometheus", id="prometheus"),
    ],
)
def test_every_module_is_pinned_by_its_checksum(recipe: Recipe, module: str) -> None:
    checksums = (recipe.module / "go.sum").read_text()

    assert f"{module} {read_module_version(recipe.go_mod, module)} h1:" in checksums


@pytest.mark.parametrize(
    ("module_version", "want"),
    [
        pytest.param("v0.316.0", "3.16.0", id="two-digits"),
        pytest.param("v0.305.2", "3.5.2", id="one-digit"),
    ],
)
def test_prometheus_is_called_by_the_name_of_its_release(module_version: str, want: str) -> None:
    go_mod = PROMETHEUS_MOD.replace("v0.316.0", module_version)
    recipe = prometheus_recipe(go_mod, "linux-x86_64")

    assert re.fullmatch(rf"prometheus-{want}-linux-x86_64-[0-9a-f]{{12}}", recipe.key)
    assert recipe.versions == f"Prometheus {want}"
    assert recipe.flags[-1].endswith(f"version.Version={want}")


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        pytest.param({"HOME": "/h"}, "/h/.cache/gatewright", id="home"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "/c/gatewright", id="xdg"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": ""}, "/h/.cache/gatewright", id="empty"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "c"}, "/h/.cache/gatewright", id="relative"),
    ],
)
def test_the_cache_is_where_the_user_wants_it(environ: dict[str, str], want: str) -> None:
    assert cache_directory(environ) == Path(want)


def test_kubebuilder_assets_are_used_and_nothing_is_built(machine: Machine, tmp_path: Path) -> None:
    machine.environ["KUBEBUILDER_ASSETS"] = str(make_assets(tmp_path / "assets"))

    assert machine.provide() == tmp_path / "assets"
    assert machine.builds == 0


@pytest.mark.parametrize("name", BINARIES)
def test_a_binary_missing_in_kubebuilder_assets_is_named(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    """Silently building instead would test other versions than the user asked for."""
    assets = make_assets(tmp_path / "assets", without=name)
    machine.environ["KUBEBUILDER_ASSETS"] = str(assets)

    with pytest.raises(BuildError) as e:
        machine.provide()
    assert f"KUBEBUILDER_ASSETS is {assets}, which lacks" in e.value.summary
    assert f": {name}. " in e.value.summary
    assert machine.builds == 0


def test_a_file_that_cannot_be_run_counts_as_missing(machine: Machine, tmp_path: Path) -> None:
    assets = make_assets(tmp_path / "assets")
    (assets / "kubectl").chmod(0o644)
    machine.environ["KUBEBUILDER_ASSETS"] = str(assets)

    with pytest.raises(BuildError, match=r"\(as an executable file\): kubectl\."):
        machine.provide()


@pytest.mark.slow
def test_binaries_are_built_into_an_empty_home(machine: Machine) -> None:
    binaries = machine.provide()

    assert binaries == machine.cache / control_plane_recipe().key
    assert sorted(path.name for path in binaries.iterdir()) == sorted(BINARIES)


@pytest.mark.slow
def test_the_terminal_is_told_what_is_built_and_how_long_it_takes(machine: Machine) -> None:
    machine.provide()

    said = "\n".join(machine.reports)
    assert "building Kubernetes v1.36.3 and etcd v3.6.8 with Go 1.99.1" in said
    assert "5 to 6 minutes" in said
    assert "built in " in machine.reports[-1]


@pytest.mark.slow
def test_prometheus_is_built_beside_the_control_plane(machine: Machine) -> None:
    plane = machine.provide()
    prometheus = machine.provide(prometheus_recipe())

    assert sorted(path.name for path in prometheus.iterdir()) == ["prometheus", "promtool"]
    assert prometheus.parent == plane.parent
    assert "building Prometheus 3." in "\n".join(machine.reports)


def test_prometheus_is_found_where_its_own_variable_says(machine: Machine, tmp_path: Path) -> None:
    """Those who have the binaries of Kubernetes do not have those of Prometheus with them."""
    machine.environ["KUBEBUILDER_ASSETS"] = str(make_assets(tmp_path / "assets"))
    machine.environ["PROMETHEUS_ASSETS"] = str(tmp_path / "assets")

    with pytest.raises(BuildError, match=r"PROMETHEUS_ASSETS is .*: prometheus, promtool\. "):
        machine.provide(prometheus_recipe())


@pytest.mark.slow
@pytest.mark.parametrize("major", [3, 4])
def test_each_helm_is_built_beside_them(machine: Machine, major: Literal[3, 4]) -> None:
    recipe = helm_recipe(major)
    helm = machine.provide(recipe)

    assert [path.name for path in helm.iterdir()] == ["helm"]
    assert f"building Helm v{major}." in "\n".join(machine.reports)
    # So that it names itself, and Helm 3 the Kubernetes that it renders for.
    assert f"-X helm.sh/helm/v{major}/internal/version.version=v{major}." in recipe.flags[-1]
    assert ("k8sVersionMinor=" in recipe.flags[-1]) == (major == 3)


def test_everything_that_is_built_has_a_place_of_its_own() -> None:
    recipes = every_recipe()

    assert len({recipe.key for recipe in recipes}) == len(recipes) == 4
    assert len({recipe.assets_variable for recipe in recipes}) == 4


@pytest.mark.slow
def test_a_second_call_builds_nothing_and_says_nothing(machine: Machine) -> None:
    first = machine.provide()
    machine.reports.clear()

    assert machine.provide() == first
    assert machine.builds == 1
    assert machine.reports == []


@pytest.mark.slow
def test_an_entry_that_lost_a_binary_is_built_again(machine: Machine) -> None:
    (machine.provide() / "etcd").unlink()

    assert (machine.provide() / "etcd").exists()
    assert machine.builds == 2


@pytest.mark.slow
def test_a_failed_build_leaves_its_log_and_no_entry(machine: Machine) -> None:
    (machine.programs / "broken").touch()

    with pytest.raises(BuildError, match=r"go build failed: example\.go:1: no such thing") as e:
        machine.provide()

    log = machine.cache / f"{control_plane_recipe().key}.log"
    assert str(log) in e.value.summary
    assert [path.name for path in machine.cache.iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_what_a_killed_build_left_is_removed_by_the_next(machine: Machine) -> None:
    leftover = machine.cache / f"{control_plane_recipe().key}.building-killed"
    leftover.mkdir(parents=True)

    machine.provide()

    assert not leftover.exists()


@pytest.mark.slow
def test_of_several_that_want_the_binaries_one_builds(machine: Machine) -> None:
    results: list[Path] = []
    threads = [threading.Thread(target=lambda: results.append(machine.provide())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [machine.cache / control_plane_recipe().key] * 4
    assert machine.builds == 1


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(9.6, "10 s", id="seconds"),
        pytest.param(59.6, "1 min 00 s", id="rounds-up-to-a-minute"),
        pytest.param(325, "5 min 25 s", id="minutes"),
    ],
)
def test_a_duration_is_written_for_people(seconds: float, want: str) -> None:
    assert format_duration(seconds) == want
