"""Replicas of the server as the chart runs them: its arguments, its account, its time to end."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import yaml

from tests.builders import JsonObject
from tests.chart.helm import NAMESPACE, is_hook, of_kind, render, the_one
from tests.controlplane.processes import Process
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.gate import START_TIMEOUT_S

# Where a process listens and what it may write to is ours to say.
_OURS = ("serve", "--kubernetes", "--listen=", "--ops-listen=", "--cert-dir=")
_TOKEN_SECONDS = 3600


class Replica(ClusterGate):
    """One of them. It is told to end as a kubelet tells it, and then given as long."""

    def __init__(
        self, directory: Path, kubeconfig: Path, *flags: str, termination_grace_s: float
    ) -> None:
        super().__init__(directory, kubeconfig, *flags)
        self._termination_grace_s = termination_grace_s
        self._ending: threading.Thread | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def leads(self) -> bool:
        return self.metric("gatewright_leader") == 1

    @property
    def is_ready(self) -> bool:
        return self.ops("/readyz")[0] == 200

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def ready(self) -> None:
        """Return when it is."""
        wait_until(lambda: self.is_ready, START_TIMEOUT_S, "the replica")

    def end(self) -> None:
        """Tell it to end, and return when it has heard that."""
        process = self.process
        self._ending = threading.Thread(
            target=process.stop, kwargs={"grace_s": self._termination_grace_s}
        )
        self._ending.start()
        wait_until(lambda: not self.is_ready, START_TIMEOUT_S, "the signal to arrive")

    def ended(self) -> int | None:
        """Its exit status, once it has ended: negative if it had to be killed."""
        assert self._ending is not None
        self._ending.join()
        return self.process.status

    def kill(self) -> None:
        if self._process is not None:
            self._process.stop(grace_s=10.0, first=signal.SIGKILL)
        if self._ending is not None:
            self._ending.join()


class Installation:
    """What the chart renders, applied to a control plane whose Pods are our processes."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane = plane
        self._directory = directory
        self._replicas: list[Replica] = []
        manifests = [each for each in render() if not is_hook(each)]
        deployment = the_one(manifests, "Deployment")
        # There is nobody to run its Pods; it owns the Lease and the Secret all the same.
        deployment["spec"]["replicas"] = 0
        self._pod: JsonObject = deployment["spec"]["template"]["spec"]
        (server,) = [each for each in self._pod["containers"] if each["name"] == "server"]
        self._flags = [each for each in server["args"] if not each.startswith(_OURS)]
        self.service: str = server_service(manifests)["metadata"]["name"]
        self.registration: str = the_one(manifests, "ValidatingWebhookConfiguration")["metadata"][
            "name"
        ]
        crds = of_kind(manifests, "CustomResourceDefinition")
        _apply(plane, crds)
        plane.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        plane.kubectl_checked("create", "namespace", NAMESPACE)
        _apply(plane, [each for each in manifests if each not in crds])

    @property
    def host(self) -> str:
        """The name by which an API server calls the webhook."""
        return f"{self.service}.{NAMESPACE}.svc"

    def replica(self, *flags: str, server_url: str = "") -> Replica:
        """One that is not begun yet; *flags* count more than the chart's."""
        directory = self._directory / f"replica-{len(self._replicas)}"
        directory.mkdir()
        made = Replica(
            directory,
            self._kubeconfig(directory, server_url or self.plane.server_url),
            *(f"--own-namespace={NAMESPACE}", *self._flags, *flags),
            termination_grace_s=float(self._pod["terminationGracePeriodSeconds"]),
        )
        self._replicas.append(made)
        return made

    def stop(self) -> None:
        """As when a node goes down."""
        for replica in self._replicas:
            replica.kill()

    def forget_certificates(self) -> None:
        """Have the next replicas make their own."""
        self.plane.kubectl_checked("delete", "secret", self._secret, "-n", NAMESPACE)

    @property
    def bundle(self) -> str:
        """The authorities of the replicas' certificate, in base64."""
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{self._secret}"
        bundle: str = self.plane.request("GET", path).json()["data"]["ca.crt"]
        return bundle

    @property
    def _secret(self) -> str:
        return self._value_of("--cert-secret")

    def _value_of(self, flag: str) -> str:
        found: str
        (found,) = [each for each in self._flags if each.startswith(f"{flag}=")]
        return found.partition("=")[2]

    def entries(self, kind: str = "validating") -> dict[str, Any]:
        """Those of one of the two registrations, by name."""
        path = (
            f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{self.registration}"
        )
        webhooks = self.plane.request("GET", path).json()["webhooks"]
        return {entry["name"]: entry for entry in webhooks}

    def registered(self, entry: str = "workloads.gatewright.io") -> set[str]:
        """The resources of an entry's rules."""
        rules = self.entries()[entry].get("rules", [])
        return {resource for rule in rules for resource in rule["resources"]}

    def _kubeconfig(self, directory: Path, server_url: str) -> Path:
        """With the rights of the chart's account."""
        account = self._pod["serviceAccountName"]
        answer = self.plane.request(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": _TOKEN_SECONDS},
            },
        )
        assert answer.status == 201, answer.text
        document = yaml.safe_load(self.plane.kubeconfig().read_text())
        document["clusters"][0]["cluster"]["server"] = server_url
        document["users"][0]["user"] = {"token": answer.json()["status"]["token"]}
        path = directory / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path


def _apply(plane: ControlPlane, manifests: list[JsonObject]) -> None:
    # As YAML, so many take seconds to write.
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    plane.kubectl_checked("apply", "--server-side", "-f", "-", stdin=text)


def server_service(manifests: list[JsonObject]) -> JsonObject:
    """The one that the registrations name."""
    (configuration, *_) = of_kind(manifests, "ValidatingWebhookConfiguration")
    name = configuration["webhooks"][0]["clientConfig"]["service"]["name"]
    (found,) = [each for each in of_kind(manifests, "Service") if each["metadata"]["name"] == name]
    return found
