"""
What is built, and of what: the control plane, Prometheus, and Helm in both its versions.

Each has a go.mod of its own beside this file, which names the versions; they share none.
"""

import hashlib
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.controlplane.errors import BuildError

HERE = Path(__file__).parent

# Into no binary: paths of this machine, and the state of this repository.
_REPRODUCIBLE = ("-trimpath", "-buildvcs=false")


@dataclass(frozen=True, slots=True)
class Recipe:
    """
    What binaries are made of. The same recipe gives the same binaries.

    *what* names them all in a sentence; *versions* are those of the programs, for people.
    *flags* are those of `go build` alone, *tags* of `go list` too: they decide which packages
    are needed. *binaries* are name -> the name that `go build` gives it, the last part of its package.
    *assets_variable* may name a directory that holds them, so that nothing is built.
    """

    name: str
    what: str
    versions: str
    module: Path
    go_mod: str
    platform: str
    flags: tuple[str, ...]
    tags: tuple[str, ...]
    binaries: Mapping[str, str]
    assets_variable: str
    usual_cost: str

    @property
    def key(self) -> str:
        """The name of this recipe's directory in the cache: readable, and unique."""
        text = "\0".join((self.go_mod, *self.tags, *self.flags, self.platform))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.name}-{self.platform}-{digest}"


def this_platform() -> str:
    return f"{sys.platform}-{platform.machine().lower()}"


def control_plane_recipe(go_mod: str = "", on: str = "") -> Recipe:
    """
    etcd, kube-apiserver, kube-controller-manager, kubectl.

    Without arguments: as this project's go.mod says, and for this machine.
    """
    module = HERE / "go"
    go_mod = go_mod or (module / "go.mod").read_text()
    kubernetes = read_module_version(go_mod, "k8s.io/kubernetes")
    etcd = read_module_version(go_mod, "go.etcd.io/etcd/server/v3")
    # Without the version the server calls itself v0.0.0 and refuses to start some
    # features, since it compares each feature's first version with its own.
    major, minor, _ = kubernetes.removeprefix("v").split(".", 2)
    values = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor}
    settings = " ".join(
        f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items()
    )
    return Recipe(
        name=f"kubernetes-{kubernetes}",
        what="the control plane",
        versions=f"Kubernetes {kubernetes} and etcd {etcd}",
        module=module,
        go_mod=go_mod,
        platform=on or this_platform(),
        flags=(*_REPRODUCIBLE, "-ldflags", f"-s -w {settings}"),
        tags=(),
        binaries={
            "etcd": "server",
            "kube-apiserver": "kube-apiserver",
            "kube-controller-manager": "kube-controller-manager",
            "kubectl": "kubectl",
        },
        assets_variable="KUBEBUILDER_ASSETS",  # the ecosystem's convention
        # Measured with Go 1.26.8 on two cores; said on the terminal so that nobody takes
        # the silence for a hang.
        usual_cost=(
            "5 to 6 minutes on two idle cores and 4 GB in Go's caches from nothing, "
            "half a minute when those caches are warm"
        ),
    )


def prometheus_recipe(go_mod: str = "", on: str = "") -> Recipe:
    """
    prometheus, and promtool to fill it with the past.

    Without arguments: as this project's go.mod says, and for this machine.
    """
    module = HERE / "go_prometheus"
    go_mod = go_mod or (module / "go.mod").read_text()
    version = read_module_version(go_mod, "github.com/prometheus/prometheus")
    # A library v0.316.0 is release 3.16.0.
    minor, patch = version.removeprefix("v0.").split(".", 1)
    release = f"{minor[0]}.{int(minor[1:])}.{patch}"
    # The discovery of every cloud would triple the build; nothing here discovers anything.
    tags = ("-tags", "remove_all_sd,slicelabels")
    setting = f"-X github.com/prometheus/common/version.Version={release}"
    return Recipe(
        name=f"prometheus-{release}",
        what="Prometheus",
        versions=f"Prometheus {release}",
        module=module,
        go_mod=go_mod,
        platform=on or this_platform(),
        flags=(*_REPRODUCIBLE, "-ldflags", f"-s -w {setting}"),
        tags=tags,
        binaries={"prometheus": "prometheus", "promtool": "promtool"},
        assets_variable="PROMETHEUS_ASSETS",
        usual_cost=(
            "about 4 minutes on two idle cores from nothing, "
            "half a minute when Go's caches are warm"
        ),
    )


def helm_recipe(major: Literal[3, 4], go_mod: str = "", on: str = "") -> Recipe:
    """
    helm, of that major version; both are in use.

    Without more arguments: as this project's go.mod says, and for this machine.
    """
    module = HERE / f"go_helm{major}"
    go_mod = go_mod or (module / "go.mod").read_text()
    version = read_module_version(go_mod, f"helm.sh/helm/v{major}")
    settings = {f"helm.sh/helm/v{major}/internal/version.version": version}
    if major == 3:
        # The Kubernetes that a chart is rendered for without a cluster; Helm 4 reads it out
        # of its own build. A library v0.37.0 is that of Kubernetes 1.37.0.
        library = read_module_version(go_mod, "k8s.io/client-go").removeprefix("v0.")
        for package in ("chartutil", "lint/rules"):
            settings[f"helm.sh/helm/v3/pkg/{package}.k8sVersionMinor"] = library.split(".")[0]
    values = " ".join(f"-X {name}={value}" for name, value in settings.items())
    return Recipe(
        name=f"helm-{version}",
        what=f"Helm {major}",
        versions=f"Helm {version}",
        module=module,
        go_mod=go_mod,
        platform=on or this_platform(),
        flags=(*_REPRODUCIBLE, "-ldflags", f"-s -w {values}"),
        tags=(),
        binaries={"helm": "helm"},
        assets_variable=f"HELM{major}_ASSETS",
        usual_cost=(
            "2 to 5 minutes on two idle cores from nothing, half a minute when Go's caches are warm"
        ),
    )


def every_recipe() -> tuple[Recipe, ...]:
    """All that tests run, in the order in which it is built."""
    return control_plane_recipe(), prometheus_recipe(), helm_recipe(3), helm_recipe(4)


def read_module_version(go_mod: str, module: str) -> str:
    """
    Find the version that *go_mod* requires of *module*.

    Raises:
        BuildError: it does not require that module.
    """
    pattern = rf"^[ \t]*(?:require[ \t]+)?{re.escape(module)}[ \t]+(v\S+)"
    found = re.search(pattern, go_mod, re.MULTILINE)
    if found is None:
        raise BuildError(f"go.mod does not require {module}")
    return found[1]
