"""Servers that are killed while they write: what they leave is the old or the new, and whole."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api.rest import POLICIES
from tests.builders import DEPLOYMENT, JsonObject, make_rule
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until
from tests.e2e.cluster_gate import ClusterGate
from tests.e2e.gate import Gate
from tests.e2e.test_certificates import SECRET, call
from tests.e2e.test_registrations import (
    MUTATING,
    NAME,
    OWN,
    VALIDATING,
    delete_registrations,
    entries,
    rendered,
)
from tests.e2e.test_rest import ACCOUNTS, VIEWER, WRITER, make_binding
from webhook.catalog.crds import build_crds
from webhook.model.manifests import dump_yaml, load_file
from webhook.store.directory import find_files
from webhook.tls.held import NAMES, read_certificates, read_held, secret_data

KILLS = 3
SECRET_KILLS = 5
WRITERS = 4
# So much that a document is written in several pieces.
IMAGES = 1500
# The times of the kills are the same in each run. What they hit is not.
SEED = 1
PATIENCE_S = 30.0


def images_of(version: int) -> list[str]:
    return [f"registry.example/{version}/image-{number}" for number in range(IMAGES)]


def make_body(unit: str, version: int) -> JsonObject:
    """A policy that says its *version* in every part of it."""
    rule = make_rule("image", "allContainers", {"options": images_of(version)})
    return {
        "workloadType": DEPLOYMENT,
        "scope": "project",
        "projectId": unit,
        "description": f"version {version}",
        "rules": [rule],
    }


def version_of(body: JsonObject) -> int:
    """Which version a policy is, all of it."""
    version = int(body["description"].removeprefix("version "))
    (rule,) = body["rules"]
    assert rule["enforcements"] == [{"options": images_of(version)}]
    return version


class Writer:
    """
    Writes one policy again and again, until its server does not answer any more.

    *may_be* are the versions that may be there then; None is none at all.
    """

    def __init__(self, gate: Gate, token: str, unit: str) -> None:
        self._gate = gate
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._unit = unit
        self._id = ""
        self._last = 0
        self.may_be: set[int | None] = {None}
        self.written = 0
        self.failure = ""

    def run(self) -> None:
        connection = self._connect()
        try:
            while True:
                self._write_once(connection)
        except (OSError, http.client.HTTPException):
            # Killed, at last.
            pass
        except AssertionError as error:
            self.failure = str(error)
        finally:
            connection.close()

    def found(self) -> int | None:
        """The version that is there; from now on it is the only one that may be."""
        connection = self._connect()
        status, body = self._call(connection, "GET", POLICIES)
        connection.close()
        assert status == 200, body
        mine = [each for each in body["policies"] if each.get("projectId") == self._unit]
        assert len(mine) <= 1
        version = version_of(mine[0]) if mine else None
        self._id = mine[0]["id"] if mine else ""
        assert version in self.may_be, (version, self.may_be)
        self.may_be = {version}
        return version

    def _write_once(self, connection: http.client.HTTPSConnection) -> None:
        (before,) = self.may_be
        if before is not None and before % 5 == 0:
            self._do(connection, "DELETE", None)
            return
        self._last += 1
        self._do(connection, "POST" if before is None else "PUT", self._last)

    def _do(
        self, connection: http.client.HTTPSConnection, method: str, version: int | None
    ) -> None:
        self.may_be.add(version)
        path = POLICIES if method == "POST" else f"{POLICIES}/{self._id}"
        body = None if version is None else make_body(self._unit, version)
        status, answer = self._call(connection, method, path, body)
        assert status in (200, 201, 204), (method, status, answer)
        self.may_be = {version}
        self._id = answer["id"] if method == "POST" else self._id
        self.written += 1

    def _connect(self) -> http.client.HTTPSConnection:
        port = int(self._gate.url.rpartition(":")[2])
        trust = ssl.create_default_context(cadata=self._gate.ca_pem)
        return http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=30)

    def _call(
        self, connection: http.client.HTTPSConnection, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, self._headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None


@contextmanager
def writing(writers: list[Writer]) -> Iterator[None]:
    """All of them write, until the server that they know is gone."""
    threads = [threading.Thread(target=writer.run) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def kill_amid_writes(gate: Gate, token: str, waits: Iterable[Callable[[], None]]) -> None:
    """
    Start *gate*, kill it while it is written to, and see that all is whole; for each of *waits*,
    which returns at the moment for that.
    """
    writers = [Writer(gate, token, f"team-{number}") for number in range(WRITERS)]
    for wait in waits:
        gate.start()
        for writer in writers:
            writer.found()
        before = sum(writer.written for writer in writers)
        with writing(writers):
            while sum(writer.written for writer in writers) == before:
                time.sleep(0.01)
            wait()
            gate.kill()
        assert [writer.failure for writer in writers] == [""] * WRITERS
    gate.start()
    for writer in writers:
        writer.found()


def some_times(count: int) -> list[Callable[[], None]]:
    chance = random.Random(SEED)
    return [partial(time.sleep, chance.uniform(0.0, 1.0)) for _ in range(count)]


def wait_for_write(directory: Path) -> None:
    """Return while something is being written there, or has been just now."""

    def look() -> list[tuple[str, int]]:
        with suppress(FileNotFoundError):
            return [(entry.name, entry.stat().st_size) for entry in os.scandir(directory)]
        return []

    before = look()
    while look() == before:
        pass


def test_a_directory_holds_whole_documents_and_all_that_was_acknowledged(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('hunter2,adam,1,"gatewright:admins"\n')
    (tmp_path / "policies").mkdir()
    gate = Gate(tmp_path, f"--api-tokens={tokens}")
    try:
        midst = [partial(wait_for_write, gate.policies)] * KILLS
        kill_amid_writes(gate, "hunter2", [*some_times(KILLS), *midst])
        assert 'gatewright_document_problems{severity="error"} 0.0' in gate.ops("/metrics")[1]
    finally:
        gate.stop()

    for path in find_files(gate.policies):
        (manifest,) = load_file(path)
        spec = manifest.value["spec"]
        version_of({"description": spec["description"], "rules": spec["rules"]})


# -- in a cluster ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane().start(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.apply(*build_crds())
        cluster.kubectl_checked("wait", "--for=condition=Established", "crd", "--all")
        for namespace in (ACCOUNTS, OWN):
            cluster.kubectl_checked("create", "namespace", namespace)
        yield cluster


def test_a_cluster_holds_whole_documents_and_all_that_was_acknowledged(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    roles = [WRITER, VIEWER]
    bindings = [make_binding(role["metadata"]["name"], "writer") for role in roles]
    cluster.kubectl_checked("apply", "-f", "-", stdin=dump_yaml([*roles, *bindings]))
    cluster.kubectl_checked("create", "serviceaccount", "writer", "-n", ACCOUNTS)
    token = cluster.kubectl_checked("create", "token", "writer", "-n", ACCOUNTS).strip()
    gate = ClusterGate(tmp_path, cluster.kubeconfig())
    try:
        kill_amid_writes(gate, token, some_times(KILLS))
    finally:
        gate.stop()


class Secret:
    """The certificates that a server keeps in the cluster."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    def read(self) -> dict[str, bytes]:
        """What it holds; empty if there is none."""
        path = f"/api/v1/namespaces/{OWN}/secrets/{SECRET}"
        answer = self._cluster.request("GET", path)
        return secret_data(answer.json()) if answer.status == 200 else {}

    def wait_for_change(self) -> None:
        before = self.read()
        wait_until(lambda: self.read() != before, PATIENCE_S, "a change", interval_s=0.02)

    def check(self) -> None:
        """Pass if there is none, or all that it holds fits together."""
        if not (data := self.read()):
            return
        assert set(data) == set(NAMES)
        leaf = read_certificates(data["tls.crt"])[0]
        # Both may have ended meanwhile, but were good together when they were written.
        held = read_held(data, leaf.not_valid_before_utc + timedelta(seconds=1))
        assert held.leaf is not None, held.problems
        assert held.signer is not None, held.problems


def test_certificates_fit_together_whenever_their_keeper_is_killed(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Lives of seconds, so that each server renews something, or is about to."""
    chance = random.Random(SEED)
    secret = Secret(cluster)
    gate = ClusterGate(
        tmp_path,
        cluster.kubeconfig(),
        *(f"--own-namespace={OWN}", f"--cert-secret={SECRET}"),
        *("--cert-lifetime=12s", "--ca-lifetime=30s"),
        *(f"--mutating-configuration={NAME}", f"--validating-configuration={NAME}"),
    )
    cluster.apply(*rendered(gate))

    def trusted() -> bool:
        """Whether who goes by the registrations trusts what is served."""
        bundles = {
            entry["clientConfig"].get("caBundle", "")
            for kind in (MUTATING, VALIDATING)
            for entry in entries(cluster, kind).values()
        }
        if len(bundles) != 1 or bundles == {""}:
            return False
        try:
            call(gate, base64.b64decode(bundles.pop()))
        except OSError:
            return False
        return True

    try:
        for number in range(SECRET_KILLS):
            gate.begin()
            if number % 2:
                time.sleep(chance.uniform(1.0, 4.0))
            else:
                secret.wait_for_change()
                time.sleep(chance.uniform(0.0, 0.1))
            gate.kill()
            secret.check()
            # Or the next server would lead only when this one's time has run out.
            cluster.kubectl_checked("delete", "lease", "--all", "-n", OWN)
        gate.start()
        wait_until(trusted, PATIENCE_S, "the registrations to name who signed what is served")
        secret.check()
    finally:
        gate.stop()
        delete_registrations(cluster)
