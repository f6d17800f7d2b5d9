"""What the chart makes: names, safety, availability, and registrations that match nothing yet."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import (
    CHART,
    EXAMPLES,
    MAJORS,
    NAMESPACE,
    RELEASE,
    Major,
    Manifest,
    Values,
    is_hook,
    of_kind,
    parse_manifests,
    render,
    render_example,
    run_helm,
    the_one,
)
from webhook.catalog.crds import build_crds
from webhook.settings import (
    OPTIONS,
    RECONCILE_OPTIONS,
    Option,
    load_reconcile_settings,
    load_settings,
)

pytestmark = pytest.mark.slow

EACH_EXAMPLE = pytest.mark.parametrize(
    "example", [None, *EXAMPLES], ids=lambda path: path.stem if path else "defaults"
)
NAME = f"{RELEASE}-gatewright"


def pods_of(manifests: list[Manifest]) -> list[Manifest]:
    """The specs of all Pods."""
    made = [each["spec"]["template"]["spec"] for each in of_kind(manifests, "Deployment")]
    return made + [each["spec"] for each in of_kind(manifests, "Pod")]


def server_of(manifests: list[Manifest]) -> Manifest:
    server: Manifest = pods_of(manifests)[0]["containers"][0]
    return server


def entries_of(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Webhooks by kind of configuration and name."""
    return {
        (kind, entry["name"]): entry
        for kind in ("Mutating", "Validating")
        for entry in the_one(manifests, f"{kind}WebhookConfiguration")["webhooks"]
    }


# --- as a whole ---


@EACH_EXAMPLE
def test_both_majors_of_helm_render_the_same(example: Path | None) -> None:
    assert render_example(example, 3) == render_example(example, 4)


@pytest.mark.parametrize("major", MAJORS)
@EACH_EXAMPLE
def test_helm_has_nothing_to_complain_about(major: Major, example: Path | None) -> None:
    values = ["--values", str(example)] if example else []
    done = run_helm(major, "lint", str(CHART), "--strict", "--namespace", NAMESPACE, *values)

    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@EACH_EXAMPLE
def test_every_object_is_named_once_and_labelled(example: Path | None) -> None:
    manifests = render_example(example)
    keys = [(each["kind"], each["metadata"]["name"]) for each in manifests]

    assert len(set(keys)) == len(keys)
    for each in manifests:
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "gatewright"


@EACH_EXAMPLE
def test_no_object_of_our_own_kinds_is_made(example: Path | None) -> None:
    """They would be gone with the release, or refused by the webhook that isn't there yet."""
    ours = {crd["spec"]["group"] for crd in build_crds()}

    assert {
        each["apiVersion"].partition("/")[0] for each in render_example(example)
    } & ours == set()


@EACH_EXAMPLE
def test_no_secret_is_made(example: Path | None) -> None:
    assert of_kind(render_example(example), "Secret") == []


@pytest.mark.parametrize(
    ("release", "values", "name"),
    [
        pytest.param("gatewright", {}, "gatewright", id="named-like-the-chart"),
        pytest.param("my-gatewright", {}, "my-gatewright", id="contains-it"),
        pytest.param("gate", {}, "gate-gatewright", id="does-not"),
        pytest.param("gate", {"nameOverride": "door"}, "gate-door", id="other-name"),
        pytest.param("gate", {"fullnameOverride": "door"}, "door", id="other-full-name"),
        pytest.param("g" * 53, {}, "g" * 50, id="cut"),
        pytest.param("g" * 47 + "--g", {"nameOverride": "g"}, "g" * 47 + "--g", id="just-fits"),
        pytest.param("g" * 47 + "---gg", {"nameOverride": "g"}, "g" * 47, id="cut-at-hyphens"),
        pytest.param("gate.v1", {}, "gate-v1-gatewright", id="a-dot-which-no-service-has"),
        pytest.param("gatewright.v1", {}, "gatewright-v1", id="contains-it-and-a-dot"),
        pytest.param("1.2", {}, "gatewright-1-2-gatewright", id="begins-with-a-digit"),
        pytest.param("123", {"nameOverride": "123"}, "gatewright-123", id="a-number"),
    ],
)
def test_objects_are_named_as_helm_users_expect(release: str, values: Values, name: str) -> None:
    done = run_helm(4, "template", release, str(CHART), "--values", "-", stdin=yaml.dump(values))
    manifests = parse_manifests(done.stdout)

    assert the_one(manifests, "Deployment")["metadata"]["name"] == name
    assert {
        entry["clientConfig"]["service"]["name"] for entry in entries_of(manifests).values()
    } == {name}
    for each in manifests:
        if each["kind"] != "CustomResourceDefinition":
            assert len(each["metadata"]["name"]) <= 63


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("word", ["123", "1e3", "true", "on", "null", "0x1f"])
def test_a_name_stays_a_text_whatever_yaml_takes_it_for(major: Major, word: str) -> None:
    secret = {"secretName": word, "key": word}
    named = {"name": word, "key": word}
    values: Values = {
        "nameOverride": word,
        "image": {"repository": "gate", "tag": word},
        "imagePullSecrets": [{"name": word}],
        "certificates": {"mode": "existingSecret", "existingSecret": {"name": word}},
        "registrations": {"name": word, "excludedNamespaces": [word]},
        "server": {"cluster": word, "clientCa": secret},
        "reconciler": {
            "prometheus": {"url": "http://p", "tokenSecret": named, "caConfigMap": named}
        },
        "serviceAccount": {"name": word},
        "priorityClassName": word,
        "networkPolicy": {"enabled": True},
        "monitoring": {
            name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard")
        },
    }
    arguments = ("template", word, str(CHART), "--namespace", word, "--values", "-")
    done = run_helm(major, *arguments, stdin=json.dumps(values))
    assert done.returncode == 0, done.stderr
    manifests = parse_manifests(done.stdout)

    assert the_one(manifests, "Role")["metadata"]["namespace"] == word
    assert [
        (each["kind"], path, value)
        for each in manifests
        if each["kind"] != "CustomResourceDefinition"
        for path, value in leaves_of(each)
        if not isinstance(value, str) and NAMING.search(path)
    ] == []


# Where Kubernetes takes text only.
NAMING = re.compile(r"(?i)(name|namespace|names|values|key|image|args)(\[\d+\])?$|abels\.")


def leaves_of(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What is in *node*, with its path."""
    if isinstance(node, dict):
        for name, child in node.items():
            yield from leaves_of(child, f"{path}.{name}")
    elif isinstance(node, list):
        for at, child in enumerate(node):
            yield from leaves_of(child, f"{path}[{at}]")
    else:
        yield path, node


# --- safety ---


@EACH_EXAMPLE
def test_pods_fulfil_the_restricted_standard(example: Path | None) -> None:
    """Kubernetes: "Pod Security Standards", and a read-only root beside it."""
    for pod in pods_of(render_example(example)):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
        kinds = {next(iter(set(volume) - {"name"})) for volume in pod.get("volumes", [])}
        assert kinds <= {"emptyDir", "secret", "configMap"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert all("hostPort" not in port for port in container.get("ports", []))


@EACH_EXAMPLE
def test_keys_are_kept_in_memory(example: Path | None) -> None:
    manifests = render_example(example)
    (run,) = [each for each in pods_of(manifests)[0]["volumes"] if "emptyDir" in each]

    assert run["emptyDir"]["medium"] == "Memory"
    assert {"name": run["name"], "mountPath": "/run/gatewright"} in server_of(manifests)[
        "volumeMounts"
    ]


@EACH_EXAMPLE
def test_containers_have_bounds_and_none_on_the_processor(example: Path | None) -> None:
    """A server that is throttled answers late, and the API server waits for it."""
    for pod in pods_of(render_example(example)):
        for container in pod["containers"]:
            assert set(container["resources"]["requests"]) == {"cpu", "memory"}
            assert set(container["resources"]["limits"]) == {"memory"}


def test_only_our_pods_and_the_test_have_a_token() -> None:
    manifests = render_example(None)
    account = the_one(manifests, "ServiceAccount")

    assert account["automountServiceAccountToken"] is False
    assert pods_of(manifests)[0]["automountServiceAccountToken"] is True
    assert pods_of(manifests)[0]["serviceAccountName"] == account["metadata"]["name"]


@EACH_EXAMPLE
def test_the_test_is_not_called_as_a_server(example: Path | None) -> None:
    manifests = render_example(example)
    selector = the_one(manifests, "Deployment")["spec"]["selector"]["matchLabels"].items()

    for pod in of_kind(manifests, "Pod"):
        assert is_hook(pod)
        assert not selector <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param({}, "gatewright:0.1.0", id="default"),
        pytest.param({"repository": "r/g", "tag": "1"}, "r/g:1", id="tag"),
        pytest.param(
            {"repository": "r/g", "tag": "1", "digest": f"sha256:{'a' * 64}"},
            f"r/g@sha256:{'a' * 64}",
            id="the-digest-counts",
        ),
    ],
)
def test_all_containers_run_the_image(image: Values, want: str) -> None:
    pods = pods_of(render({"image": image}))

    assert {each["image"] for pod in pods for each in pod["containers"]} == {want}


# --- availability ---


def test_an_upgrade_takes_no_replica_away_before_another_is_ready() -> None:
    deployment = the_one(render_example(None), "Deployment")["spec"]

    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_the_strategy_may_be_another_one() -> None:
    """Kubernetes takes no `rollingUpdate` with it, which is among the defaults."""
    manifests = render({"updateStrategy": {"type": "Recreate"}})

    assert the_one(manifests, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


@EACH_EXAMPLE
def test_a_pod_may_live_until_it_has_answered_everybody(example: Path | None) -> None:
    manifests = render_example(example)
    flags = dict(each.partition("=")[::2] for each in server_of(manifests)["args"])
    delay_s = float(flags["--shutdown-delay-seconds"])
    grace_s = float(flags["--shutdown-grace-seconds"])

    assert delay_s > 0
    assert pods_of(manifests)[0]["terminationGracePeriodSeconds"] > delay_s + grace_s


@EACH_EXAMPLE
def test_replicas_are_spread(example: Path | None) -> None:
    manifests = render_example(example)
    labels = the_one(manifests, "Deployment")["spec"]["selector"]["matchLabels"]
    spread = pods_of(manifests)[0]["topologySpreadConstraints"]

    assert {each["topologyKey"] for each in spread} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    assert all(each["labelSelector"] == {"matchLabels": labels} for each in spread)


def test_probes_ask_what_the_container_serves() -> None:
    for container in pods_of(render_example(None))[0]["containers"]:
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        flags = dict(each.partition("=")[::2] for each in container["args"])
        for probe in ("startupProbe", "livenessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["path"] == "/healthz"
            assert f":{ports[asked['port']]}" == flags["--ops-listen"]
    assert server_of(render_example(None))["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_one_replica_needs_no_budget() -> None:
    (example,) = [path for path in EXAMPLES if path.stem == "one-node"]

    assert of_kind(render_example(example), "PodDisruptionBudget") == []
    budget = the_one(render_example(None), "PodDisruptionBudget")["spec"]
    assert budget["minAvailable"] == 1
    assert "maxUnavailable" not in budget


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_services_find_ports_that_are_there(path: Path) -> None:
    manifests = render_example(path)
    containers = pods_of(manifests)[0]["containers"]
    names = {port["name"] for each in containers for port in each["ports"]}

    for service in of_kind(manifests, "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


# --- settings ---


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="defaults"),
        pytest.param(
            {
                "server": {
                    "cluster": "prod",
                    "scope": {"projectLabel": ["a/b", "c"], "departmentLabel": "d"},
                    "trustedControllers": ["system:serviceaccount:ops:*"],
                    "clientCa": {"secretName": "callers"},
                },
                "reconciler": {
                    "prometheus": {
                        "url": "https://prometheus.example:9090/base",
                        "tokenSecret": {"name": "token"},
                        "caConfigMap": {"name": "ca"},
                    }
                },
            },
            id="everything",
        ),
        pytest.param({"certificates": {"mode": "certManager"}}, id="cert-manager"),
        pytest.param(
            {"certificates": {"mode": "existingSecret", "existingSecret": {"name": "mine"}}},
            id="secret",
        ),
    ],
)
def test_the_commands_take_what_they_are_told(values: Values) -> None:
    """Each flag by the program's own reader, with the image's variables around."""
    containers = {each["name"]: each for each in pods_of(render(values))[0]["containers"]}
    for name, options, load in (
        ("server", OPTIONS, load_settings),
        ("reconciler", RECONCILE_OPTIONS, load_reconcile_settings),
    ):
        environment = {
            "GATEWRIGHT_POLICIES": "/etc/gatewright/policies",
            **{each["name"]: each.get("value", "platform") for each in containers[name]["env"]},
        }
        assert load(flags_of(containers[name]["args"][1:], options), environment) is not None


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("prod #1", id="what-begins-a-comment"),
        pytest.param("eu: prod", id="what-makes-a-map"),
        pytest.param("*", id="an-alias"),
        pytest.param('it\'s "prod"', id="quotes"),
        pytest.param("a\\nb", id="backslash"),
        pytest.param("$(HOSTNAME) $HOME $$(X)", id="variables-of-kubernetes"),
        pytest.param("{{ .Release.Name }}", id="a-template"),
        pytest.param("Köln", id="more-than-ascii"),
    ],
)
def test_a_command_is_told_what_the_value_says(major: Major, text: str) -> None:
    # What a URL can hold of it.
    url = f"http://prometheus/{text.replace('#', '%23')}"
    values = {
        "server": {"cluster": text, "trustedControllers": [text]},
        "reconciler": {"prometheus": {"url": url}},
    }
    told = [
        argument
        for container in pods_of(render(values, major=major))[0]["containers"]
        for argument in container["args"]
    ]

    wanted = {
        f"--cluster-name={text}",
        f"--trusted-controllers={text}",
        f"--prometheus-url={url}",
    }
    assert wanted <= {as_kubernetes_starts_it(argument) for argument in told}


def as_kubernetes_starts_it(argument: str) -> str:
    """With no variable around: `$$` is `$`, and `$(NAME)` would be replaced."""
    assert re.sub(r"\$\$", "", argument).count("$(") == 0
    return argument.replace("$$", "$")


def flags_of(arguments: list[str], options: tuple[Option, ...]) -> dict[str, Any]:
    """As argparse gives them."""
    known = {option.flag: option.attribute for option in options}
    given = [each.partition("=") for each in arguments]
    assert [flag for flag, _, _ in given if flag not in known] == []
    assert all(shlex.join([flag]) == flag for flag, _, _ in given)
    return {known[flag]: text or "true" for flag, _, text in given}


# --- registrations ---


@EACH_EXAMPLE
def test_registrations_match_nothing_until_a_server_fills_them(example: Path | None) -> None:
    """Neither a broken install nor what is left of one can hold up a cluster."""
    for entry in entries_of(render_example(example)).values():
        assert not {"rules", "matchConditions"} & set(entry)
        assert "caBundle" not in entry["clientConfig"]


def test_the_entries_are_those_that_the_servers_fill() -> None:
    entries = entries_of(render_example(None))

    assert {key: entry["clientConfig"]["service"]["path"] for key, entry in entries.items()} == {
        ("Mutating", "workloads.gatewright.io"): "/mutate",
        ("Mutating", "pods.gatewright.io"): "/mutate",
        ("Mutating", "probe.gatewright.io"): "/mutate",
        ("Validating", "workloads.gatewright.io"): "/validate",
        ("Validating", "pods.gatewright.io"): "/validate",
        ("Validating", "documents.gatewright.io"): "/validate",
    }
    for (kind, _), entry in entries.items():
        assert entry["timeoutSeconds"] == 5
        assert entry["matchPolicy"] == "Equivalent"
        assert entry["sideEffects"] == "None"
        assert entry["admissionReviewVersions"] == ["v1"]
        assert entry["failurePolicy"] == {"Mutating": "Ignore", "Validating": "Fail"}[kind]
        assert entry.get("reinvocationPolicy") == {"Mutating": "IfNeeded"}.get(kind)
        service = entry["clientConfig"]["service"]
        assert (service["name"], service["namespace"], service["port"]) == (NAME, NAMESPACE, 443)


@pytest.mark.parametrize(
    ("namespace", "more", "left_out"),
    [
        pytest.param(NAMESPACE, [], ["kube-system", NAMESPACE], id="own-namespace"),
        pytest.param("kube-system", [], ["kube-system"], id="in-kube-system"),
        pytest.param("ours", ["cni", "ours"], ["kube-system", "ours", "cni"], id="and-others"),
    ],
)
def test_what_a_cluster_needs_to_start_is_left_out(
    namespace: str, more: list[str], left_out: list[str]
) -> None:
    """B18, with the validating webhook at Fail and whatever the release's namespace is."""
    values = {"registrations": {"excludedNamespaces": more}}
    entries = entries_of(render(values, "--namespace", namespace))
    key = "kubernetes.io/metadata.name"

    for (_, name), entry in entries.items():
        selector = entry.get("namespaceSelector", {}).get("matchExpressions")
        if name in ("workloads.gatewright.io", "pods.gatewright.io"):
            assert selector == [{"key": key, "operator": "NotIn", "values": left_out}]
        elif name == "probe.gatewright.io":
            assert selector == [{"key": key, "operator": "In", "values": [namespace]}]
            assert entry["objectSelector"] == {"matchLabels": {"gatewright.io/probe": "true"}}
        else:
            assert selector is None


@pytest.mark.parametrize("release", ["gatewright", "zzz"])
def test_ours_are_called_before_those_of_kai(release: str) -> None:
    done = run_helm(4, "template", release, str(CHART))
    manifests = parse_manifests(done.stdout)

    assert the_one(manifests, "MutatingWebhookConfiguration")["metadata"]["name"].startswith(
        "gatewright-"
    )


# --- CRDs ---


@pytest.mark.parametrize(
    ("values", "count"),
    [
        pytest.param({}, 19, id="all"),
        pytest.param({"rightsizing": False}, 13, id="not-those-of-others"),
        pytest.param({"install": False}, 0, id="none"),
    ],
)
def test_crds_are_upgraded_with_the_release(values: Values, count: int) -> None:
    """As templates: of what is in `crds/` Helm never looks at an upgrade."""
    found = of_kind(render({"crds": values}, "--is-upgrade"), "CustomResourceDefinition")
    files = [yaml.safe_load(path.read_text()) for path in CHART.glob("files/*crds/*.yaml")]
    specs = {crd["metadata"]["name"]: crd["spec"] for crd in files}

    assert len(found) == count
    for crd in found:
        assert crd["spec"] == specs[crd["metadata"]["name"]]
        assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not (CHART / "crds").exists()


def test_crds_go_with_the_release_if_that_is_asked_for() -> None:
    for crd in of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition"):
        assert "annotations" not in crd["metadata"]


# --- what is off by default ---


def test_what_needs_other_products_is_off() -> None:
    kinds = {each["kind"] for each in render_example(None)}

    assert not kinds & {
        "NetworkPolicy",
        "ServiceMonitor",
        "PrometheusRule",
        "ConfigMap",
        "Issuer",
        "Certificate",
    }


def test_a_network_policy_lets_through_what_is_needed() -> None:
    (example,) = [path for path in EXAMPLES if path.stem == "production"]
    manifests = render_example(example)
    policy = the_one(manifests, "NetworkPolicy")["spec"]
    names = {port["name"] for each in pods_of(manifests)[0]["containers"] for port in each["ports"]}
    ingress = [
        (rule.get("from"), [port["port"] for port in rule["ports"]]) for rule in policy["ingress"]
    ]

    # API servers are in no network of Pods: anybody may call.
    assert (None, ["https"]) in ingress
    assert {port for _, ports in ingress for port in ports} == names
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {
        53,
        443,
        6443,
        9090,
    }


@pytest.mark.parametrize(
    ("url", "port"),
    [
        pytest.param("http://prometheus.monitoring", 80, id="http"),
        pytest.param("https://prometheus.monitoring/base", 443, id="https"),
        pytest.param("http://prometheus:19090", 19090, id="port"),
        pytest.param("http://[fd00::1]:9091", 9091, id="ipv6"),
        pytest.param("http://[fd00::1]", 80, id="ipv6-without-port"),
    ],
)
def test_the_port_of_prometheus_is_open(url: str, port: int) -> None:
    values = {"networkPolicy": {"enabled": True}, "reconciler": {"prometheus": {"url": url}}}
    (rule,) = the_one(render(values), "NetworkPolicy")["spec"]["egress"][2:]

    assert port in [each["port"] for each in rule["ports"]]


def test_alerts_and_dashboard_are_the_files_of_the_chart() -> None:
    (example,) = [path for path in EXAMPLES if path.stem == "production"]
    manifests = render_example(example)
    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())

    assert the_one(manifests, "PrometheusRule")["spec"] == alerts
    (dashboard,) = the_one(manifests, "ConfigMap")["data"].values()
    assert dashboard.strip() == (CHART / "files" / "dashboard.json").read_text().strip()


def test_metrics_of_all_containers_are_scraped() -> None:
    manifests = render({"monitoring": {"serviceMonitor": {"enabled": True}}})
    monitor = the_one(manifests, "ServiceMonitor")["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    (service,) = [
        each
        for each in of_kind(manifests, "Service")
        if wanted <= each["metadata"]["labels"].items()
    ]

    assert {each["port"] for each in monitor["endpoints"]} == {
        port["name"] for port in service["spec"]["ports"]
    }


def test_without_the_reconciler_nothing_of_it_is_left() -> None:
    manifests = render({"reconciler": {"enabled": False}})

    assert [each["name"] for each in pods_of(manifests)[0]["containers"]] == ["server"]
    text = yaml.dump([each for each in manifests if each["kind"] != "CustomResourceDefinition"])
    assert "reconciler" not in text
    assert "eviction" not in text


# --- certificates ---


def test_cert_manager_is_asked_for_a_certificate_that_the_pods_mount() -> None:
    (example,) = [path for path in EXAMPLES if path.stem == "cert-manager"]
    manifests = render_example(example)
    certificate = the_one(manifests, "Certificate")["spec"]
    (volume,) = [each for each in pods_of(manifests)[0]["volumes"] if each["name"] == "certificate"]

    assert certificate["issuerRef"]["name"] == "platform-ca"
    assert f"{NAME}.{NAMESPACE}.svc" in certificate["dnsNames"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    assert of_kind(manifests, "Issuer") == []


def test_without_an_issuer_the_chart_makes_an_authority() -> None:
    manifests = render({"certificates": {"mode": "certManager"}})
    issuers = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Issuer")}
    certificates = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "Certificate")
    }
    authority = certificates[f"{NAME}-ca"]

    assert authority["isCA"] is True
    assert "selfSigned" in issuers[authority["issuerRef"]["name"]]
    issuer = issuers[certificates[NAME]["issuerRef"]["name"]]
    assert issuer == {"ca": {"secretName": authority["secretName"]}}


def test_servers_are_left_no_secret_that_cert_manager_has_made() -> None:
    """They would take it for somebody else's, follow it, and never renew it."""
    own = dict(each.partition("=")[::2] for each in server_of(render_example(None))["args"])
    manifests = render({"certificates": {"mode": "certManager"}})
    theirs = {each["spec"]["secretName"] for each in of_kind(manifests, "Certificate")}

    assert theirs == {f"{NAME}-serving", f"{NAME}-serving-ca"}
    assert own["--cert-secret"] not in theirs


@pytest.mark.parametrize("mode", ["certManager", "existingSecret"])
def test_only_its_own_certificates_need_rights_on_secrets(mode: str) -> None:
    def secrets_of(values: Values) -> list[Any]:
        role = the_one(render(values), "Role")
        return [rule for rule in role["rules"] if rule["resources"] == ["secrets"]]

    assert secrets_of({}) != []
    name = "mine" if mode == "existingSecret" else ""
    assert secrets_of({"certificates": {"mode": mode, "existingSecret": {"name": name}}}) == []
