"""
A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager.

    with ControlPlane().start(directory) as plane:
        plane.kubectl_checked("apply", "-f", "-", stdin=manifest, user="alice")

There is no kubelet and no scheduler: Deployments become Pods, Pods stay Pending.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.controlplane.build import provide_binaries
from tests.controlplane.cluster import ADMIN, ALICE, Cluster
from tests.controlplane.documents import (
    AuditLevel,
    Document,
    User,
    build_audit_policy,
    build_editor_rights,
    build_egress,
    build_kubeconfig,
    build_token_file,
    parse_audit_log,
)
from tests.controlplane.errors import ControlPlaneError, ProcessError
from tests.controlplane.flags import (
    apiserver_flags,
    controller_manager_flags,
    etcd_flags,
)
from tests.controlplane.processes import Process, start_process
from tests.controlplane.recipes import control_plane_recipe
from tests.controlplane.wait import wait_until

CONTROLLER_MANAGER = "system:kube-controller-manager"
MASTERS = "system:masters"

# Measured: all three are ready within 3 s on two idle cores. The rest is for machines
# that do something else at the same time.
START_TIMEOUT_S = 60.0
# Short: what listens on our port may be somebody else's, and never answer.
PROBE_TIMEOUT_S = 2.0
# kube-apiserver lets running requests end, which takes it up to about a second.
STOP_GRACE_S = 20.0
PORT_ATTEMPTS = 5
PORT_TAKEN = "address already in use"


class ControlPlane(Cluster):
    """
    One control plane, from `start` to `stop`.

    *users* adds people to the built-in ones, as name -> groups: `admin` may do everything,
    `alice` may edit workloads in all namespaces, and nobody else may do anything until
    RBAC says so. *audit* switches on the audit log at that level: every change, and all
    calls, reads included, of the users that *audit_whole* names. *service_proxy* is the Unix
    socket of who forwards calls of Services, as nothing else here does (`ServiceProxy`).
    """

    def __init__(
        self,
        binaries: Path | None = None,
        *,
        audit: AuditLevel | None = None,
        audit_whole: Sequence[str] = (),
        service_proxy: Path | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        groups = {ADMIN: (MASTERS,), ALICE: (), CONTROLLER_MANAGER: (), **(users or {})}
        super().__init__(
            User(name, secrets.token_urlsafe(24), tuple(of)) for name, of in groups.items()
        )
        self._binaries = binaries
        self._audit = audit
        self._audit_whole = tuple(audit_whole)
        self._service_proxy = service_proxy
        self._processes: list[Process] = []
        # By program, as last started.
        self._commands: dict[str, tuple[Path, list[str]]] = {}
        self._etcd_name = f"etcd-{secrets.token_hex(6)}"

    def start(self, directory: Path) -> Self:
        """
        Start everything inside *directory*, which is made if it is not there.

        Returns when the API server is ready, the default namespace has its service
        account, and alice has her rights.

        Raises:
            ControlPlaneError: the binaries cannot be had, or a process does not start.
                Whatever was started is stopped again; logs stay in `directory/logs`.
        """
        if self._processes:
            raise ControlPlaneError("this control plane was started already")
        binaries = self._binaries or provide_binaries(control_plane_recipe())
        self._kubectl = binaries / "kubectl"
        self.directory = directory.absolute()
        for path in (self.directory, self._layout.logs, self._layout.home):
            path.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)  # tokens and a signing key are inside
        try:
            self._start_all(binaries)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop what runs, last started first. Calling it again does nothing."""
        # The order matters: a kube-apiserver without its etcd hangs in its shutdown.
        while self._processes:
            self._processes[-1].stop(grace_s=STOP_GRACE_S)
            self._processes.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def require_running(self) -> None:
        """
        Pass if every process runs.

        Raises:
            ProcessError: one has ended; with the end of its log.
        """
        for process in self._processes:
            process.require_running()

    @property
    def pids(self) -> dict[str, int]:
        """The process ids, by program."""
        return {process.name: process.pid for process in self._processes}

    @property
    def logs(self) -> Path:
        """The directory with one log file per process."""
        return self._layout.logs

    def kill(self, program: str) -> None:
        """
        Kill a program (`kube-apiserver`) as a crash would, and return when it is gone.

        Raises:
            ControlPlaneError: no such program was started.
        """
        self._process(program).stop(grace_s=STOP_GRACE_S, first=signal.SIGKILL)

    def revive(self, program: str) -> None:
        """
        Start a program that was killed again, as it was, and return when all is ready.

        Raises:
            ControlPlaneError: it does not start.
        """
        old = self._process(program)
        place = self._processes.index(old)
        new = self._spawn(*self._commands[program])
        # In its old place: the order is that in which they are stopped.
        self._processes.remove(new)
        self._processes[place] = new
        port = int(self.server_url.rpartition(":")[2])
        self._wait_for(partial(self._apiserver_ready, port), f"{program} to be back")

    def _process(self, program: str) -> Process:
        for process in self._processes:
            if process.name == program:
                return process
        raise ControlPlaneError(f"{program} was not started")

    def audit_events(self) -> list[Document]:
        """
        Read the audit log: one event per change, once it is answered.

        Annotations of webhooks are in `annotations`, as `<webhook name>/<key>`.

        Raises:
            ControlPlaneError: the audit log is off.
        """
        if self._audit is None:
            raise ControlPlaneError("the audit log is off: give ControlPlane an audit level")
        path = self._layout.audit_log
        return parse_audit_log(path.read_text()) if path.exists() else []

    def _start_all(self, binaries: Path) -> None:
        layout = self._layout
        layout.tokens.write_text(build_token_file(list(self._users.values())))
        layout.service_account_key.write_text(_make_signing_key())
        if self._audit is not None:
            layout.audit_policy.write_text(
                yaml.safe_dump(build_audit_policy(self._audit, self._audit_whole))
            )
        if self._service_proxy is not None:
            layout.egress.write_text(yaml.safe_dump(build_egress(str(self._service_proxy))))
        # Data of an earlier run is of no use with the keys of this one.
        shutil.rmtree(layout.etcd_data, ignore_errors=True)

        etcd_port = self._start_on_free_port(
            binaries / "etcd", partial(etcd_flags, layout, name=self._etcd_name), self._etcd_ready
        )
        flags = partial(
            apiserver_flags,
            layout,
            etcd_url=f"http://127.0.0.1:{etcd_port}",
            audit=self._audit is not None,
            egress=self._service_proxy is not None,
        )
        self._start_on_free_port(binaries / "kube-apiserver", flags, self._apiserver_ready)
        for user in self._users.values():
            document = build_kubeconfig(self.server_url, self.ca_pem, user)
            self._kubeconfig_path(user).write_text(yaml.safe_dump(document))
        self._spawn(
            binaries / "kube-controller-manager",
            controller_manager_flags(layout, self.kubeconfig(CONTROLLER_MANAGER)),
        )
        self.apply(*build_editor_rights(ALICE))
        self._wait_for(self._has_default_account, "the service account of namespace default")
        self._wait_for(self._alice_may_edit, "the rights of alice")

    def _start_on_free_port(
        self, binary: Path, flags: Callable[[int], list[str]], ready: Callable[[int], bool]
    ) -> int:
        """Start *binary* on a free port, wait until it is ready, and return the port."""
        for _ in range(PORT_ATTEMPTS):
            port = free_port()
            process = self._spawn(binary, flags(port))
            try:
                self._wait_for(partial(ready, port), f"{binary.name} to be ready")
            except ProcessError as e:
                # Somebody took the port after we had found it free.
                if PORT_TAKEN not in e.detail:
                    raise
                self._processes.remove(process)
                process.log.unlink()  # or the next attempt would be judged by it
            else:
                return port
        raise ProcessError(f"{binary.name} found no free port in {PORT_ATTEMPTS} attempts")

    def _spawn(self, binary: Path, flags: list[str]) -> Process:
        process = start_process(
            binary.name,
            [str(binary), *flags],
            log=self.logs / f"{binary.name}.log",
            # Nothing of the user's: etcd reads its settings from ETCD_*, and an HTTP
            # proxy would be asked for the webhooks.
            env={"HOME": str(self._layout.home), "PATH": os.defpath},
            cwd=self.directory,
        )
        self._processes.append(process)
        self._commands[binary.name] = binary, flags
        return process

    def _wait_for(self, predicate: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            self.require_running()
            return predicate()

        wait_until(holds, START_TIMEOUT_S, what, interval_s=0.05)

    def _etcd_ready(self, port: int) -> bool:
        # By name: if another etcd got the port before ours, its answer must not count, or
        # two control planes would share one store. (kube-apiserver proves itself by TLS.)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://127.0.0.1:{port}/v3/cluster/member/list"
        try:
            with opener.open(url, data=b"{}", timeout=PROBE_TIMEOUT_S) as response:
                members = json.load(response)["members"]
        except (OSError, ValueError, KeyError):
            return False
        return [member.get("name") for member in members] == [self._etcd_name]

    def _apiserver_ready(self, port: int) -> bool:
        certificate = self._layout.apiserver_certificate
        if not certificate.exists():
            return False
        self.server_url = f"https://127.0.0.1:{port}"
        try:
            self.ca_pem = certificate.read_text()
            return self.request("GET", "/readyz", timeout_s=PROBE_TIMEOUT_S).status == 200
        except OSError:
            return False

    def _has_default_account(self) -> bool:
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        return self.request("GET", path).status == 200

    def _alice_may_edit(self) -> bool:
        # `edit` is put together from other roles by a controller.
        asked = {"namespace": "default", "verb": "create", "group": "apps"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**asked, "resource": "deployments"}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self.request("POST", path, review, user=ALICE)
        return answer.status == 201 and bool(answer.json()["status"]["allowed"])


def free_port() -> int:
    """
    Find a TCP port of 127.0.0.1 that is free now.

    It may be taken a moment later, so whoever uses it tries again.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _make_signing_key() -> str:
    """Make the key that signs service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        # Not PKCS 8: kube-apiserver finds no public key in that.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()
