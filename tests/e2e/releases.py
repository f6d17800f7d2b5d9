"""Releases of the chart on a control plane, by either Helm, with a node for their Pods."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.builders import JsonObject
from tests.chart.helm import CHART, Major, helm_binary
from tests.controlplane.cluster import ADMIN
from tests.controlplane.errors import CommandError
from tests.controlplane.run import ControlPlane

NAMESPACE = "gatewright"
HELM_TIMEOUT_S = 120.0

# What Kubernetes itself makes and takes away at any time.
_PASSING = ("events", "apiservices", "leases/kube-system")


class Helm:
    """One major version of Helm on one control plane."""

    def __init__(self, plane: ControlPlane, major: Major) -> None:
        self.major = major
        self._plane = plane

    def run(
        self, *arguments: str, values: JsonObject | None = None, namespace: str = NAMESPACE
    ) -> subprocess.CompletedProcess[str]:
        """Run helm in *namespace* and return how it ended."""
        given = () if values is None else ("--values", "-")
        return subprocess.run(
            [helm_binary(self.major), *arguments, "--namespace", namespace, *given],
            env={
                "HOME": str(self._plane.directory / "home"),
                "KUBECONFIG": str(self._plane.kubeconfig()),
            },
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            timeout=HELM_TIMEOUT_S,
            check=False,
        )

    def checked(
        self, *arguments: str, values: JsonObject | None = None, namespace: str = NAMESPACE
    ) -> str:
        """
        Run helm and return what it printed.

        Raises:
            CommandError: it ended with another status than 0.
        """
        done = self.run(*arguments, values=values, namespace=namespace)
        if done.returncode != 0:
            raise CommandError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def install(
        self,
        release: str = "gatewright",
        *flags: str,
        values: JsonObject | None = None,
        namespace: str = NAMESPACE,
        chart: Path = CHART,
    ) -> str:
        return self.checked(
            "install", release, str(chart), *flags, values=values or {}, namespace=namespace
        )


def inventory(plane: ControlPlane) -> set[str]:
    """Every object of the cluster, as `resource/namespace/name`, but for what comes and goes."""
    found = set()
    with _Reader(plane) as reader:
        groups = reader.get("/apis")["groups"]
        versions = [each["preferredVersion"]["groupVersion"] for each in groups]
        for version in ("v1", *versions):
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for resource in reader.get(root).get("resources", []):
                if "/" in resource["name"] or "list" not in resource["verbs"]:
                    continue
                for item in reader.get(f"{root}/{resource['name']}").get("items", []):
                    place = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                    found.add(f"{resource['name']}/{place}")
    return {each for each in found if not each.startswith(_PASSING)}


class _Reader:
    """Many reads over one connection, as the administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(cadata=plane.ca_pem)
        host = plane.server_url.removeprefix("https://")
        self._connection = http.client.HTTPSConnection(host, context=tls, timeout=30)
        self._headers = {"Authorization": f"Bearer {plane.token(ADMIN)}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """The answer; `{}` where there is no such path: a kind may go while we look."""
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return json.loads(text) if answer.status == 200 else {}


def webhooks_of(plane: ControlPlane) -> dict[tuple[str, str], Any]:
    """The entries of our registrations, by kind and name; empty where there are none."""
    found = {}
    for kind in ("Mutating", "Validating"):
        resource = f"{kind}WebhookConfiguration"
        listed = plane.kubectl_checked(
            "get", resource, "-l", "app.kubernetes.io/part-of=gatewright", "-o", "json"
        )
        for item in json.loads(listed)["items"]:
            for entry in item["webhooks"]:
                found[kind, entry["name"]] = entry
    return found
