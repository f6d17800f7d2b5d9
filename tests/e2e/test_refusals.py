"""A server with too much to do, as a user of the cluster sees it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path

from tests.api.door import Door, serving
from tests.api.full import FullLine
from tests.builders import JsonObject
from tests.controlplane.run import ControlPlane
from tests.controlplane.wait import wait_until

# What an API server waits for an answer by the settings that we recommend, and here: kubectl alone
# takes some tenths of a second, and the machine may do other things too.
RECOMMENDED_S = 5
TIMEOUT_S = 2 * RECOMMENDED_S
IN_USE_S = 30.0
NAME = "refusals.gatewright.test"
LABELS = {"refusals": "test"}
UNAVAILABLE = "the server is currently unable to handle the request"


def make_registration(door: Door) -> JsonObject:
    """Has *door* judge the ConfigMaps of this test, and nothing else."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": NAME,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{door.port}/validate",
                    "caBundle": base64.b64encode(door.ca.read_bytes()).decode(),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["CREATE"],
                    }
                ],
                "objectSelector": {"matchLabels": LABELS},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_S,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def create(plane: ControlPlane, *flags: str) -> str:
    """What a user is told who creates a ConfigMap."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "refusals", "namespace": "default", "labels": LABELS},
    }
    return plane.kubectl("create", *flags, "-f", "-", stdin=json.dumps(document)).stderr


def refused(door: Door) -> float:
    return door.counted("gatewright_requests_rejected_total", reason="busy")


async def test_what_is_refused_for_too_much_to_do_is_one_call_and_answered_at_once(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with serving(tmp_path, line=FullLine()) as door:
        try:
            await asyncio.to_thread(plane.apply, make_registration(door))
            await asyncio.to_thread(
                wait_until,
                lambda: UNAVAILABLE in create(plane, "--dry-run=server"),
                IN_USE_S,
                "the registration to be in use",
            )
            before, begun = refused(door), time.monotonic()
            told = await asyncio.to_thread(create, plane)
            took_s = time.monotonic() - begun
        finally:
            await asyncio.to_thread(plane.kubectl, "delete", "validatingwebhookconfiguration", NAME)

    assert NAME in told
    assert UNAVAILABLE in told
    assert refused(door) - before == 1
    assert took_s < RECOMMENDED_S
