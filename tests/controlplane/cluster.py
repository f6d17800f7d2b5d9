"""A running control plane from the outside: kubectl, plain requests, webhooks."""

import json
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.documents import (
    REGISTRATION_WEBHOOK,
    Document,
    FailurePolicy,
    Registration,
    Rule,
    User,
    build_registration_probe,
    build_webhook_configurations,
    default_rules,
)
from tests.controlplane.errors import CommandError, ControlPlaneError
from tests.controlplane.flags import Layout
from tests.controlplane.wait import wait_until

ADMIN = "admin"
ALICE = "alice"

REGISTRATION_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answered."""

    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Cluster:
    """
    What one can do with a control plane that runs.

    The attributes are known once it does.
    """

    def __init__(self, users: Iterable[User]) -> None:
        self._users = {user.name: user for user in users}
        self._registration: tuple[str, dict[str, str]] | None = None
        self._kubectl: Path | None = None
        self.directory = Path()
        self.server_url = ""
        self.ca_pem = ""

    @property
    def kubectl_path(self) -> Path:
        """
        The kubectl that belongs to this control plane.

        Raises:
            ControlPlaneError: the control plane was not started.
        """
        if self._kubectl is None:
            raise ControlPlaneError("the control plane was not started")
        return self._kubectl

    def token(self, user: str) -> str:
        """
        The bearer token of *user*.

        Raises:
            ControlPlaneError: there is no such user.
        """
        return self._user(user).token

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """
        The kubeconfig file of *user*.

        Raises:
            ControlPlaneError: there is no such user.
        """
        return self._kubeconfig_path(self._user(user))

    def kubectl(
        self,
        *args: str,
        stdin: str | None = None,
        user: str = ADMIN,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """
        Run kubectl as *user* and return how it ended, whatever that is.

        Raises:
            CommandError: it did not end within *timeout_s*, and was killed.
        """
        try:
            return subprocess.run(
                [self.kubectl_path, *args],
                env={"HOME": str(self._layout.home), "KUBECONFIG": str(self.kubeconfig(user))},
                input="" if stdin is None else stdin,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            command = " ".join(("kubectl", *args))
            raise CommandError(f"{command} did not end within {timeout_s:g} s") from e

    def kubectl_checked(
        self,
        *args: str,
        stdin: str | None = None,
        user: str = ADMIN,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> str:
        """
        Run kubectl as *user* and return its standard output.

        Raises:
            CommandError: it ended with another status than 0, or not in time.
        """
        done = self.kubectl(*args, stdin=stdin, user=user, timeout_s=timeout_s)
        if done.returncode != 0:
            command = " ".join(("kubectl", *args))
            raise CommandError(
                f"{command} as {user} ended with status {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def apply(self, *documents: Document, user: str = ADMIN) -> str:
        """
        Apply *documents* with kubectl and return its standard output.

        Raises:
            CommandError: one of them was refused.
        """
        # Server-side: a client-side apply copies each document into an annotation, which
        # is too small for a large CRD.
        manifest = yaml.safe_dump_all(documents)
        return self.kubectl_checked(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest, user=user
        )

    def request(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        user: str = ADMIN,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Answer:
        """
        Send one request to the API server as *user* and return its answer, good or bad.

        Raises:
            OSError: there was no answer.
        """
        request = urllib.request.Request(
            self.server_url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.token(user)}",
                "Content-Type": "application/json",
            },
        )
        tls = ssl.create_default_context(cadata=self.ca_pem)
        # No proxy: the user's environment may name one, and we talk to this machine.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )
        try:
            with opener.open(request, timeout=timeout_s) as response:
                return Answer(response.status, response.read().decode())
        except urllib.error.HTTPError as e:
            with e:
                return Answer(e.code, e.read().decode())

    def register_webhooks(
        self,
        mutate_url: str,
        validate_url: str,
        ca_pem: str,
        *,
        rules: Sequence[Rule] | None = None,
        mutating_failure_policy: FailurePolicy = "Ignore",
        validating_failure_policy: FailurePolicy = "Fail",
        timeout_s: int = 5,
        name: str = "gatewright-admission",
    ) -> None:
        """
        Register both webhooks, and return when the API server calls them.

        *rules* defaults to `default_rules()`; kube-system is always left out. Registering
        again replaces what was there.

        Raises:
            CommandError: the API server refused the configuration.
            WaitTimeoutError: it was not taken into use in time.
        """
        registration = Registration(
            mutate_url,
            validate_url,
            ca_pem,
            default_rules() if rules is None else tuple(rules),
            name,
            mutating_failure_policy,
            validating_failure_policy,
            timeout_s,
        )
        nonces = {
            kind: f"registration-{secrets.token_hex(6)}"
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        }
        self.apply(*build_webhook_configurations(registration, nonces))
        self._registration = (name, nonces)
        for kind, nonce in nonces.items():
            wait_until(
                partial(self._is_refused, nonce), REGISTRATION_TIMEOUT_S, f"{kind} to be in use"
            )

    def unregister_webhooks(self) -> None:
        """
        Take back the last registration, and return when the API server calls nobody.

        Raises:
            ControlPlaneError: nothing is registered.
            WaitTimeoutError: the API server did not notice in time.
        """
        if self._registration is None:
            raise ControlPlaneError("no webhooks are registered")
        name, nonces = self._registration
        for kind in nonces:
            self.kubectl_checked("delete", kind, name)
        self._registration = None
        for kind, nonce in nonces.items():
            wait_until(
                partial(self._is_admitted, nonce), REGISTRATION_TIMEOUT_S, f"{kind} to be gone"
            )

    def _is_refused(self, nonce: str) -> bool:
        answer = self._probe(nonce)
        return answer.status >= 400 and REGISTRATION_WEBHOOK in answer.text

    def _is_admitted(self, nonce: str) -> bool:
        return self._probe(nonce).status == 201

    def _probe(self, nonce: str) -> Answer:
        path = "/api/v1/namespaces/default/configmaps?dryRun=All"
        return self.request("POST", path, build_registration_probe(nonce))

    @property
    def _layout(self) -> Layout:
        return Layout(self.directory)

    def _user(self, name: str) -> User:
        if name not in self._users:
            known = ", ".join(sorted(self._users))
            raise ControlPlaneError(f"there is no user {name}; there are {known}")
        return self._users[name]

    def _kubeconfig_path(self, user: User) -> Path:
        return self.directory / f"{user.name.replace(':', '-')}.kubeconfig"
