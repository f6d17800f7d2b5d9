"""
A node for Pods of our image: what kubelet and kube-proxy do, with processes in place of containers.

A container is started with the arguments, variables and volumes that its Pod says, over the
variables of the image, and with the token of its account. What differs: it listens on a port of
127.0.0.1 that is free, since all Pods share one network here, and what it is told to read below a
volume's path it finds in a directory.
"""

from __future__ import annotations

import base64
import os
import random
import re
import shutil
import signal
import sys
import threading
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import yaml

from tests.builders import JsonObject
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.processes import Process, start_process
from tests.controlplane.run import ControlPlane, free_port
from tests.e2e.gate import PROJECT

_PERIOD_S = 0.2
_STOP_GRACE_S = 20.0
_TOKEN_SECONDS = 3600


class Container:
    """One container as a process, begun anew when it ends (unless its Pod is one that ends)."""

    def __init__(
        self,
        spec: JsonObject,
        command: list[str],
        env: dict[str, str],
        log: Path,
        ports: dict[str, int],
    ) -> None:
        self.spec = spec
        self.name = spec["name"]
        # By name, and where they really are.
        self.ports = ports
        self.log = log
        self._command, self._env = command, env
        self.process = self._start()

    def _start(self) -> Process:
        return start_process(self.name, self._command, log=self.log, env=self._env, cwd=PROJECT)

    def restart_if_ended(self) -> None:
        if not self.process.running:
            self.process = self._start()

    def is_ready(self) -> bool:
        """By its own readiness probe; without one, while it runs."""
        if not self.process.running:
            return False
        probe = self.spec.get("readinessProbe")
        if probe is None:
            return True
        url = f"http://127.0.0.1:{self.ports[probe['httpGet']['port']]}{probe['httpGet']['path']}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class RunningPod:
    def __init__(self, manifest: JsonObject, containers: list[Container]) -> None:
        self.manifest = manifest
        self.containers = containers
        self.told: JsonObject | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def ends_by_itself(self) -> bool:
        return bool(self.manifest["spec"]["restartPolicy"] == "Never")

    def status(self) -> JsonObject:
        if self.ends_by_itself and not self.containers[0].process.running:
            code = self.containers[0].process.status
            return {"phase": "Succeeded" if code == 0 else "Failed", "conditions": []}
        ready = all(container.is_ready() for container in self.containers)
        condition = {"type": "Ready", "status": str(ready)}
        return {"phase": "Running", "conditions": [condition]}


class Node:
    """
    Runs the Pods of one namespace whose image is ours, from `start` to `stop`.

    `route` says to a `ServiceProxy` where a Service is.
    """

    def __init__(self, plane: ControlPlane, directory: Path, namespace: str) -> None:
        self._plane = plane
        self._directory = directory
        self._namespace = namespace
        self._pods: dict[str, RunningPod] = {}
        self._ending: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End all Pods at once, as when a node goes down."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        for pod in self._pods.values():
            for container in pod.containers:
                container.process.stop(grace_s=_STOP_GRACE_S, first=signal.SIGKILL)
        for thread in self._ending:
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pods(self) -> list[RunningPod]:
        return list(self._pods.values())

    def log_of(self, container: str) -> str:
        """What all containers of that name have said so far, those that are gone too."""
        paths = sorted(self._directory.glob(f"*/{container}.log"))
        return "\n".join(path.read_text() for path in paths)

    def route(self, host: str, port: int) -> int | None:
        """The local port of a ready Pod behind the Service with the address *host*."""
        path = f"/api/v1/namespaces/{self._namespace}/services"
        for service in self._plane.request("GET", path).json()["items"]:
            spec = service["spec"]
            targets = [each["targetPort"] for each in spec["ports"] if each["port"] == port]
            if spec.get("clusterIP") != host or not targets:
                continue
            wanted = spec["selector"].items()
            found = [
                container.ports[targets[0]]
                for pod in self.pods
                if wanted <= pod.manifest["metadata"]["labels"].items()
                and pod.told is not None
                and {"type": "Ready", "status": "True"} in pod.told["conditions"]
                for container in pod.containers
                if targets[0] in container.ports
            ]
            return random.choice(found) if found else None
        return None

    # --- as the kubelet ---

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_PERIOD_S):
                self._look()
        except (OSError, ControlPlaneError) as error:
            # The control plane is gone before us.
            self.failure = error

    def _look(self) -> None:
        wanted = {pod["metadata"]["uid"]: pod for pod in self._list()}
        for uid in self._pods.keys() - wanted.keys():
            self._end(self._pods.pop(uid))
        for uid, manifest in wanted.items():
            if uid not in self._pods and manifest["status"]["phase"] == "Pending":
                pod = self._begin(manifest)
                if pod is not None:
                    self._pods[uid] = pod
        for pod in self.pods:
            if not pod.ends_by_itself:
                for container in pod.containers:
                    container.restart_if_ended()
            status = pod.status()
            if status != pod.told:
                self._tell(pod, status)

    def _list(self) -> list[JsonObject]:
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        found = self._plane.request("GET", path).json().get("items", [])
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def _tell(self, pod: RunningPod, status: JsonObject) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [{**each, "lastTransitionTime": now} for each in status["conditions"]]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod.name}/status"
        stored = self._plane.request("GET", path)
        if stored.status != 200:
            return  # It has gone meanwhile.
        written = {**status, "conditions": conditions}
        if self._plane.request("PUT", path, {**stored.json(), "status": written}).status == 200:
            pod.told = status

    def _end(self, pod: RunningPod) -> None:
        """SIGTERM to all at once; beside us, since answers may be under way for a while."""
        grace_s = float(pod.manifest["spec"]["terminationGracePeriodSeconds"])

        def end(container: Container) -> None:
            container.process.stop(grace_s=grace_s)

        for container in pod.containers:
            thread = threading.Thread(target=end, args=(container,), daemon=True)
            thread.start()
            self._ending.append(thread)

    def _begin(self, manifest: JsonObject) -> RunningPod | None:
        """None while something that it mounts, or its account, is not there."""
        directory = self._directory / manifest["metadata"]["uid"]
        directory.mkdir(exist_ok=True)
        mounted = self._volumes(manifest, directory)
        kubeconfig = self._kubeconfig(manifest, directory)
        if mounted is None or kubeconfig is None:
            return None
        containers = [
            self._container(spec, manifest, directory, mounted, kubeconfig)
            for spec in manifest["spec"]["containers"]
        ]
        return RunningPod(manifest, containers)

    def _container(
        self,
        spec: JsonObject,
        manifest: JsonObject,
        directory: Path,
        volumes: dict[str, Path],
        kubeconfig: Path,
    ) -> Container:
        numbers = {port["containerPort"]: free_port() for port in spec.get("ports", [])}
        mounts = {
            each["mountPath"]: volumes[each["name"]]
            for each in spec.get("volumeMounts", [])
            if each["name"] in volumes
        }

        def placed(text: str) -> str:
            for path, real in mounts.items():
                text = text.replace(path, str(real))
            return re.sub(r"=:(\d+)$", lambda port: f"=127.0.0.1:{numbers[int(port[1])]}", text)

        env = {
            **image_environment(),
            **{e["name"]: _value(e, manifest) for e in spec.get("env", [])},
        }
        return Container(
            spec,
            [sys.executable, "-m", "webhook", *[placed(each) for each in spec["args"]]],
            {"PATH": os.environ["PATH"], **env, "KUBECONFIG": str(kubeconfig)},
            directory / f"{spec['name']}.log",
            {port["name"]: numbers[port["containerPort"]] for port in spec.get("ports", [])},
        )

    def _volumes(self, manifest: JsonObject, directory: Path) -> dict[str, Path] | None:
        found = {}
        for volume in manifest["spec"].get("volumes", []):
            place = directory / "volumes" / volume["name"]
            if "emptyDir" in volume:
                place.mkdir(parents=True, exist_ok=True)
            elif "secret" in volume:
                name = volume["secret"]["secretName"]
                path = f"/api/v1/namespaces/{self._namespace}/secrets/{name}"
                answer = self._plane.request("GET", path)
                if answer.status != 200:
                    return None
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                for key, data in answer.json()["data"].items():
                    (place / key).write_bytes(base64.b64decode(data))
            else:
                continue  # The account's token: `_kubeconfig`.
            found[volume["name"]] = place
        return found

    def _kubeconfig(self, manifest: JsonObject, directory: Path) -> Path | None:
        account = manifest["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        answer = self._plane.request("POST", path, body)
        if answer.status != 201:
            return None
        token = directory / "token"
        token.write_text(answer.json()["status"]["token"])
        document = yaml.safe_load(self._plane.kubeconfig().read_text())
        document["users"][0]["user"] = {"tokenFile": str(token)}
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        return kubeconfig


def image_environment() -> dict[str, str]:
    """The variables that the image sets for us."""
    text = (PROJECT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    return dict(re.findall(r"\b(GATEWRIGHT_\w+)=(\S+)", text))


def _value(variable: JsonObject, manifest: JsonObject) -> str:
    if "valueFrom" not in variable:
        return str(variable.get("value", ""))
    *above, name = variable["valueFrom"]["fieldRef"]["fieldPath"].split(".")
    node: Any = manifest
    for part in above:
        node = node[part]
    return str(node[name])
