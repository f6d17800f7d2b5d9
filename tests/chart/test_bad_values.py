"""Values that can't be, or contradict each other, are refused with a text that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.helm import MAJORS, NAMESPACE, Major, Values, template

pytestmark = pytest.mark.slow

PDB = "podDisruptionBudget"


def nested(path: str, value: Any) -> Values:
    """`{"a": {"b": value}}` of `a.b`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    found: Values = value
    return found


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("replicas", 2, id="unknown"),
        pytest.param("server.loglevel", "info", id="misspelt-below"),
        pytest.param("replicaCount", 0, id="no-replica"),
        pytest.param("replicaCount", "2", id="text-for-a-number"),
        pytest.param("image.digest", "sha256:1234", id="half-a-digest"),
        pytest.param("image.pullPolicy", "always", id="pull-policy"),
        pytest.param("certificates.mode", "cert-manager", id="mode"),
        pytest.param("certificates.own.lifetime", "90d", id="days"),
        pytest.param("registrations.timeoutSeconds", 31, id="longer-than-kubernetes-allows"),
        pytest.param("registrations.validating.failurePolicy", "fail", id="failure-policy"),
        pytest.param("registrations.excludedNamespaces", "team-a", id="no-list"),
        pytest.param("server.trustedControllers", ["a,b"], id="comma"),
        pytest.param("reconciler.prometheus.url", "prometheus:9090", id="no-url"),
        pytest.param("reconciler.prometheus.url", "http://[fd00::1", id="half-an-address"),
        pytest.param("reconciler.prometheus.url", "http://p/%zz", id="no-escape"),
        pytest.param("reconciler.prometheus.url", "http://ada:secret@p", id="credentials"),
        pytest.param("reconciler.prometheus.url", "http://p/?tenant=a", id="a-query"),
        pytest.param("networkPolicy.apiServerPorts", [], id="no-way-to-the-api-server"),
        # Null takes a default away, and what is rendered without it may be valid all the same: a
        # right on every webhook configuration.
        pytest.param("registrations.name", None, id="registrations-of-no-name"),
        pytest.param("registrations.validating.failurePolicy", None, id="no-failure-policy"),
        pytest.param("registrations.excludedNamespaces", None, id="null-for-a-list"),
        pytest.param("server.resources", None, id="no-resources"),
        pytest.param("podSecurityContext", None, id="no-security-context"),
        pytest.param("crds", None, id="null-for-a-group"),
        pytest.param("server.scope.departmentLabel", "my department", id="no-label"),
        pytest.param("server.scope.projectLabel", ["a/b/c"], id="no-label-in-a-list"),
        pytest.param("server.cluster", "prod ", id="a-space-that-nobody-sees"),
        pytest.param("server.cluster", "prod\nb", id="two-lines"),
        pytest.param("fullnameOverride", "1st", id="no-name-for-a-service"),
    ],
)
def test_the_schema_refuses(major: Major, path: str, value: Any) -> None:
    done = template(major, nested(path, value))

    assert done.returncode == 1
    assert "values don't meet the specifications of the schema" in done.stderr
    # The place, as Helm 3 or Helm 4 writes it; of an unknown name it is the object's and the name.
    *above, name = path.split(".")
    told = done.stderr.replace("/", ".")
    assert path in told or (name in told and ".".join(above) in told)


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param(
            {"replicaCount": 1},
            "podDisruptionBudget.minAvailable 1 with replicaCount 1 lets no node be drained",
            id="one-replica-that-must-stay",
        ),
        pytest.param(
            {"replicaCount": 3, PDB: {"minAvailable": 3}},
            "podDisruptionBudget.minAvailable 3 with replicaCount 3",
            id="all-replicas-must-stay",
        ),
        pytest.param({PDB: {"minAvailable": "100%"}}, "minAvailable 100% with", id="all-of-them"),
        pytest.param({PDB: {"minAvailable": "80%"}}, "minAvailable 80% with", id="80-percent-of-2"),
        pytest.param(
            {"replicaCount": 100, PDB: {"minAvailable": "100%"}},
            "minAvailable 100% with replicaCount 100",
            id="100-percent-of-100",
        ),
        pytest.param({PDB: {"maxUnavailable": 0}}, "maxUnavailable 0 lets no node", id="none"),
        pytest.param({PDB: {"maxUnavailable": "0%"}}, "maxUnavailable 0% lets no", id="0-percent"),
        pytest.param(
            {PDB: {"minAvailable": None}},
            "podDisruptionBudget needs minAvailable or maxUnavailable",
            id="neither",
        ),
        pytest.param(
            {"certificates": {"mode": "existingSecret"}},
            "certificates.mode existingSecret needs certificates.existingSecret.name",
            id="which-secret",
        ),
        pytest.param(
            {"certificates": {"existingSecret": {"name": "mine"}}},
            "certificates.existingSecret.name is given, but certificates.mode is own",
            id="a-secret-that-nobody-reads",
        ),
        pytest.param(
            {"certificates": {"certManager": {"issuerRef": {"name": "ca"}}}},
            "certificates.certManager.issuerRef.name is given, but certificates.mode is own",
            id="an-issuer-that-nobody-asks",
        ),
        pytest.param(
            {"certificates": {"own": {"lifetime": "100h", "caLifetime": "99h"}}},
            "certificates.own.lifetime 100h is longer than certificates.own.caLifetime 99h",
            id="longer-than-its-authority",
        ),
        pytest.param(
            {"certificates": {"own": {"lifetime": "2h", "caLifetime": "1h59m59.5s"}}},
            "certificates.own.lifetime 2h is longer than certificates.own.caLifetime 1h59m59.5s",
            id="longer-than-its-authority-in-other-units",
        ),
        pytest.param(
            {"certificates": {"own": {"lifetime": "0h"}}},
            "certificates.own.lifetime 0h must be from 10s to 9552h",
            id="a-certificate-that-never-lives",
        ),
        pytest.param(
            {"certificates": {"own": {"caLifetime": "175201h"}}},
            "certificates.own.caLifetime 175201h must be from 10s to 175200h",
            id="an-authority-for-ever",
        ),
        pytest.param(
            {"server": {"reports": {"scanPeriod": "0s"}}},
            "server.reports.scanPeriod 0s must be from 1s to 168h",
            id="looks-without-end",
        ),
        pytest.param(
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}}},
            "with maxUnavailable and maxSurge 0 no Pod could ever be replaced",
            id="an-upgrade-that-never-begins",
        ),
        pytest.param(
            {"reconciler": {"prometheus": {"url": "http://prometheus:65536"}}},
            "reconciler.prometheus.url: there is no port 65536",
            id="beyond-all-ports",
        ),
        pytest.param(
            {
                "certificates": {
                    "mode": "certManager",
                    "certManager": {"duration": "1h", "renewBefore": "90m"},
                }
            },
            "certificates.certManager.renewBefore 90m is no shorter than",
            id="renewed-without-end-in-other-units",
        ),
        pytest.param(
            {
                "certificates": {
                    "mode": "certManager",
                    "certManager": {"duration": "24h", "renewBefore": "24h"},
                }
            },
            "certificates.certManager.renewBefore 24h is no shorter than",
            id="renewed-without-end",
        ),
        pytest.param(
            {"image": {"repository": "REGISTRY/gatewright"}},
            "image.repository REGISTRY/gatewright has capital letters",
            id="an-image-in-capitals",
        ),
        pytest.param(
            {"server": {"jq": {"deadlineSeconds": 6}}},
            "server.jq.deadlineSeconds 6 is no shorter than registrations.timeoutSeconds 5",
            id="a-query-that-outlives-its-review",
        ),
        pytest.param(
            {"server": {"jq": {"deadlineSeconds": 1}}, "registrations": {"timeoutSeconds": 1}},
            "server.jq.deadlineSeconds 1 is no shorter than registrations.timeoutSeconds 1",
            id="a-query-as-long-as-its-review",
        ),
        pytest.param(
            {"crds": {"install": False, "adopt": True}},
            "crds.adopt takes CRDs over that the chart installs, and crds.install is false",
            id="crds-that-nobody-installs",
        ),
        pytest.param(
            {"serviceAccount": {"create": False}},
            "serviceAccount.create=false needs serviceAccount.name",
            id="whose-account",
        ),
        pytest.param(
            {"reconciler": {"prometheus": {"tokenSecret": {"name": "token"}}}},
            "tokenSecret.name needs reconciler.prometheus.url",
            id="a-token-for-nobody",
        ),
        pytest.param(
            {"podLabels": {"app.kubernetes.io/name": "mine"}},
            "podLabels must not hold app.kubernetes.io/name",
            id="labels-by-which-pods-are-found",
        ),
        pytest.param(
            {"registrations": {"excludedNamespaces": ["default"]}},
            "namespace default is left out of the webhooks",
            id="a-test-that-sees-nothing",
        ),
        pytest.param(
            {"tests": {"namespace": NAMESPACE}},
            f"namespace {NAMESPACE} is left out of the webhooks",
            id="a-test-in-our-own-namespace",
        ),
    ],
)
def test_a_contradiction_is_refused(major: Major, values: Values, text: str) -> None:
    done = template(major, values)

    assert done.returncode == 1
    assert text in done.stderr


@pytest.mark.parametrize("major", MAJORS)
def test_all_contradictions_are_told_at_once(major: Major) -> None:
    values = {"replicaCount": 1, "certificates": {"mode": "existingSecret"}}
    done = template(major, values)

    assert "\n- podDisruptionBudget.minAvailable 1" in done.stderr
    assert "\n- certificates.mode existingSecret" in done.stderr


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"replicaCount": 1, PDB: {"enabled": False}}, id="no-budget"),
        pytest.param({"replicaCount": 1, PDB: {"maxUnavailable": 1}}, id="one-may-go"),
        pytest.param({"replicaCount": 4, PDB: {"minAvailable": "50%"}}, id="half-of-them"),
        pytest.param({"replicaCount": 3, PDB: {"minAvailable": "66%"}}, id="two-of-three"),
        pytest.param({"replicaCount": 6, PDB: {"minAvailable": "80%"}}, id="five-of-six"),
        pytest.param({PDB: {"minAvailable": "0%"}}, id="none-must-stay"),
        pytest.param({"image": {"repository": "localhost:5000/gatewright"}}, id="a-port"),
        pytest.param({"server": {"jq": {"deadlineSeconds": 4.5}}}, id="a-long-query"),
        pytest.param({"crds": {"install": False}}, id="no-crds"),
        # Without a cluster nobody knows what it has.
        pytest.param(
            {
                "certificates": {"mode": "certManager"},
                "monitoring": {"serviceMonitor": {"enabled": True}},
            },
            id="products-that-may-be-there",
        ),
        pytest.param(
            {"certificates": {"mode": "existingSecret", "existingSecret": {"name": "mine"}}},
            id="a-secret",
        ),
        pytest.param(
            {"certificates": {"own": {"lifetime": "10m", "caLifetime": "1h30m"}}}, id="minutes"
        ),
        pytest.param({"serviceAccount": {"create": False, "name": "mine"}}, id="account"),
    ],
)
def test_what_fits_together_is_rendered(major: Major, values: Values) -> None:
    assert template(major, values).returncode == 0


@pytest.mark.parametrize("major", MAJORS)
def test_an_older_kubernetes_is_refused(major: Major) -> None:
    done = template(major, {}, "--kube-version", "1.27.9")

    assert done.returncode == 1
    assert "1.28" in done.stderr
