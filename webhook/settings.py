"""Settings of `serve` and `reconcile`, and the only place that reads the environment."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from webhook.errors import ManifestError, SettingsError
from webhook.mapping.limits import WorkerLimits
from webhook.model.manifests import load_file
from webhook.model.names import did_you_mean
from webhook.model.rightsizing.durations import parse_duration
from webhook.model.settings import EngineSettings
from webhook.telemetry.logs import LEVELS

ENV_PREFIX = "GATEWRIGHT_"


class Address(NamedTuple):
    """Where to listen. An empty host means every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Everything that `gatewright serve` can be told. Names follow the flags."""

    # Where the documents are: a directory, or else the cluster.
    policies: Path | None
    kubernetes: bool
    kubeconfig: Path | None
    write_status: bool
    api_tokens: Path | None
    listen: Address
    ops_listen: Address
    tls_cert: Path | None
    tls_key: Path | None
    # None only where a certificate is given.
    cert_dir: Path | None
    client_ca: Path | None
    # Empty: no Secret is kept.
    cert_secret: str
    service_name: str
    cert_lifetime: timedelta
    ca_lifetime: timedelta
    # None: callers go by the authorities of their system, or by those of our own certificates.
    ca_bundle: Path | None
    # The objects that the leader fills in; empty: none.
    mutating_configuration: str
    validating_configuration: str
    # Those that the registrations leave out, beside kube-system and our own.
    excluded_namespaces: tuple[str, ...]
    # Ours, with the binding of that name; empty: it stays when our namespace goes.
    cluster_role: str
    # That of this server; empty: what it makes belongs to nobody.
    deployment: str
    cluster_name: str
    project_label: tuple[str, ...]
    department_label: str
    refuse_early: bool
    trusted_controllers: tuple[str, ...]
    own_namespace: str
    events: bool
    policy_reports: bool
    scan_period: timedelta
    log_level: str
    max_body_bytes: int
    max_connections: int
    jq_deadline_seconds: float
    jq_memory_mib: int
    shutdown_delay_seconds: float
    shutdown_grace_seconds: float

    @property
    def jq_limits(self) -> WorkerLimits:
        """Those of the processes that run jq."""
        return WorkerLimits(
            evaluate_ms=round(self.jq_deadline_seconds * 1000), memory_mib=self.jq_memory_mib
        )

    @property
    def engine(self) -> EngineSettings:
        """Those that decisions depend on."""
        return EngineSettings(
            cluster_name=self.cluster_name,
            project_labels=self.project_label,
            department_label=self.department_label,
            refuse_early=self.refuse_early,
            trusted_controllers=self.trusted_controllers,
            own_namespace=self.own_namespace,
        )


@dataclass(frozen=True, slots=True)
class ReconcileSettings:
    """Everything that `gatewright reconcile` can be told. Names follow the flags."""

    kubernetes: bool
    kubeconfig: Path | None
    namespace: str
    # That of this process; empty: the Lease belongs to nobody.
    deployment: str
    # Empty: that of the GlobalConfiguration.
    prometheus_url: str
    prometheus_token_file: Path | None
    prometheus_ca: Path | None
    device_label: str
    ops_listen: Address
    log_level: str


# Readers take a flag's text, a variable's text or a value of the file, and raise ValueError
# with what they accept.


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("a text")


def _path(value: Any) -> Path:
    if isinstance(value, str) and value:
        return Path(value).expanduser()
    raise ValueError("a path")


def _texts(value: Any) -> tuple[str, ...]:
    # A list in the file, a flag that was given several times, or a text with commas.
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        raise ValueError("texts, separated by commas")
    return tuple(text.strip() for item in items for text in item.split(",") if text.strip())


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    try:
        return {"true": True, "1": True, "false": False, "0": False}[value.lower()]
    except (AttributeError, KeyError):
        raise ValueError("true or false") from None


def _address(value: Any) -> Address:
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("HOST:PORT, with an IPv6 address in brackets")
    return Address(host, int(port))


def _number(least: float, most: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not least <= number <= most:
            raise ValueError(f"a number from {least:g} to {most:g}")
        return number

    return read


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value)
        if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def _duration(least: str, most: str) -> Callable[[Any], timedelta]:
    def read(value: Any) -> timedelta:
        try:
            duration = parse_duration(value) if isinstance(value, str) else None
        except ValueError:
            duration = None
        if duration is None or not parse_duration(least) <= duration <= parse_duration(most):
            raise ValueError(f"a duration from {least} to {most}, such as 90s, 10m or 1h30m")
        return duration

    return read


def _one_of(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if isinstance(value, str) and value.lower() in choices:
            return value.lower()
        raise ValueError(f"one of {', '.join(choices)}")

    return read


@dataclass(frozen=True, slots=True)
class Option:
    """
    One setting: *key* in the file, *flag* on the command line, the variable made from it.

    *default* is read like a given value; None means that there is none.
    """

    key: str
    flag: str
    read: Callable[[Any], Any]
    metavar: str
    help: str
    default: Any = None

    @property
    def attribute(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.attribute.upper()


_ENGINE = EngineSettings()
_JQ = WorkerLimits()

# The order is that of `--help`.
OPTIONS = (
    Option(
        "policies",
        "--policies",
        _path,
        "DIR",
        "directory of documents to enforce; watched for changes",
    ),
    Option(
        "kubernetes",
        "--kubernetes",
        _flag,
        "BOOL",
        "enforce the documents of a cluster, in place of a directory's",
        "false",
    ),
    Option(
        "kubeconfig",
        "--kubeconfig",
        _path,
        "FILE",
        "how to reach it (default: KUBECONFIG, the Pod's ServiceAccount, ~/.kube/config)",
    ),
    Option(
        "writeStatus",
        "--write-status",
        _flag,
        "BOOL",
        "write into each document's status whether it is in force",
        "true",
    ),
    Option(
        "apiTokens",
        "--api-tokens",
        _path,
        "FILE",
        'turns the REST API on without a cluster: lines of token,user,uid,"group,group"',
    ),
    Option(
        "listen",
        "--listen",
        _address,
        "HOST:PORT",
        "where to answer admission reviews (HTTPS)",
        "127.0.0.1:8443",
    ),
    Option(
        "opsListen",
        "--ops-listen",
        _address,
        "HOST:PORT",
        "where to answer /healthz, /readyz and /metrics (HTTP)",
        "127.0.0.1:8080",
    ),
    Option("tlsCert", "--tls-cert", _path, "FILE", "serving certificate; a change is taken over"),
    Option("tlsKey", "--tls-key", _path, "FILE", "its private key"),
    Option(
        "certDir",
        "--cert-dir",
        _path,
        "DIR",
        "where a development certificate is made if none is given"
        " (default: gatewright/certs in the user's state directory)",
    ),
    Option(
        "clientCa",
        "--client-ca",
        _path,
        "FILE",
        "callers must present a certificate that this authority has signed",
    ),
    Option(
        "certSecret",
        "--cert-secret",
        _text,
        "NAME",
        "keep an authority and a certificate in this Secret of our own namespace, and renew them",
        "",
    ),
    Option(
        "serviceName",
        "--service-name",
        _text,
        "NAME",
        "the Service by which the API server calls, which that certificate is for",
        "gatewright",
    ),
    Option(
        "certs.lifetime",
        "--cert-lifetime",
        _duration("10s", "9552h"),
        "DURATION",
        "how long that certificate lives; it is renewed after two thirds of that",
        "2160h",
    ),
    Option(
        "certs.caLifetime",
        "--ca-lifetime",
        _duration("10s", "175200h"),
        "DURATION",
        "how long its authority lives; likewise",
        "17520h",
    ),
    Option(
        "caBundleFile",
        "--ca-bundle",
        _path,
        "FILE",
        "with --tls-cert: authorities that callers are told to trust; a change is taken over"
        " (default: they go by those of their system)",
    ),
    Option(
        "registrations.mutating",
        "--mutating-configuration",
        _text,
        "NAME",
        "MutatingWebhookConfiguration whose entries the leader fills in; never made",
        "",
    ),
    Option(
        "registrations.validating",
        "--validating-configuration",
        _text,
        "NAME",
        "ValidatingWebhookConfiguration whose entries the leader fills in; never made",
        "",
    ),
    Option(
        "registrations.excludedNamespaces",
        "--excluded-namespaces",
        _texts,
        "NAMES",
        "namespaces that both leave out, beside kube-system and our own: no report is about them",
        "",
    ),
    Option(
        "clusterRole",
        "--cluster-role",
        _text,
        "NAME",
        "our own ClusterRole and its binding: like both registrations they go with our namespace",
        "",
    ),
    Option(
        "deployment",
        "--deployment",
        _text,
        "NAME",
        "our own Deployment, in our own namespace: what is made here goes when it does",
        "",
    ),
    Option(
        "cluster",
        "--cluster-name",
        _text,
        "NAME",
        "this cluster's name in policies of scope cluster",
        _ENGINE.cluster_name,
    ),
    Option(
        "scope.projectLabel",
        "--project-label",
        _texts,
        "LABEL",
        "label of a namespace that names its project; of several the first that is there",
        ",".join(_ENGINE.project_labels),
    ),
    Option(
        "scope.departmentLabel",
        "--department-label",
        _text,
        "LABEL",
        "label of a namespace that names its department",
        _ENGINE.department_label,
    ),
    Option(
        "admission.refuseEarly",
        "--refuse-early",
        _flag,
        "BOOL",
        "refuse at /mutate already what breaks a rule",
        str(_ENGINE.refuse_early).lower(),
    ),
    Option(
        "trustedControllers",
        "--trusted-controllers",
        _texts,
        "USERS",
        "users whose objects are not judged again where their owner was; * is a wildcard",
        ",".join(_ENGINE.trusted_controllers),
    ),
    Option(
        "ownNamespace",
        "--own-namespace",
        _text,
        "NAME",
        "namespace of this server, where it answers probes of itself",
        _ENGINE.own_namespace,
    ),
    Option(
        "events",
        "--events",
        _flag,
        "BOOL",
        "with a cluster: tell denials as Events in their namespaces",
        "true",
    ),
    Option(
        "reports.enabled",
        "--policy-reports",
        _flag,
        "BOOL",
        "with a cluster: keep a PolicyReport of what already runs and breaks a rule",
        "true",
    ),
    Option(
        "reports.scanPeriod",
        "--scan-period",
        _duration("1s", "168h"),
        "DURATION",
        "how often to look at what runs, besides when a policy has changed",
        "1h",
    ),
    Option("logLevel", "--log-level", _one_of(*LEVELS), "LEVEL", ", ".join(LEVELS), "info"),
    Option(
        "maxBodyBytes",
        "--max-body-bytes",
        _whole(1024, 2**30),
        "BYTES",
        "largest request body that is read",
        # As `api.limits.bodies` explains, which takes longer to load.
        str(24 * 2**20),
    ),
    Option(
        "maxConnections",
        "--max-connections",
        _whole(16, 10**6),
        "COUNT",
        "most connections held at a time, of which each takes 40 KB; for a new one the one goes"
        " that has been idle for longest",
        # As in `api.limits.connections`.
        "2048",
    ),
    Option(
        "jq.deadlineSeconds",
        "--jq-deadline-seconds",
        _number(0.01, 10),
        "SECONDS",
        "longest run of a mapping's queries on one object",
        str(_JQ.evaluate_ms / 1000),
    ),
    Option(
        "jq.memoryMib",
        "--jq-memory-mib",
        _whole(64, 2**16),
        "MIB",
        "most address space of a process that runs queries",
        str(_JQ.memory_mib),
    ),
    Option(
        "shutdown.delaySeconds",
        "--shutdown-delay-seconds",
        _number(0, 300),
        "SECONDS",
        "how long to go on answering, unready, after SIGTERM: until nobody calls any more",
        "0",
    ),
    Option(
        "shutdown.graceSeconds",
        "--shutdown-grace-seconds",
        _number(0, 300),
        "SECONDS",
        "how long running requests may take to finish after that",
        "20",
    ),
)


_BY_FLAG = {option.flag: option for option in OPTIONS}

RECONCILE_OPTIONS = (
    Option(
        "kubernetes",
        "--kubernetes",
        _flag,
        "BOOL",
        "keep the GPUs of a cluster's workloads as its policies want; there is nothing else to do",
        "true",
    ),
    _BY_FLAG["--kubeconfig"],
    Option(
        "reconcile.namespace",
        "--namespace",
        _text,
        "NAME",
        "namespace of the server: for the Lease by which one of several leads, and for probes",
        "gatewright",
    ),
    _BY_FLAG["--deployment"],
    Option(
        "prometheus.url",
        "--prometheus-url",
        _text,
        "URL",
        "the Prometheus to ask (default: that of the GlobalConfiguration)",
    ),
    Option(
        "prometheus.tokenFile",
        "--prometheus-token-file",
        _path,
        "FILE",
        "a bearer token for it, sent to that URL and to no other",
    ),
    Option(
        "prometheus.ca",
        "--prometheus-ca",
        _path,
        "FILE",
        "authorities that its certificate may come from, in place of the system's",
    ),
    Option(
        "prometheus.deviceLabel",
        "--device-label",
        _text,
        "LABEL",
        "label of a series that names its GPU",
        "gpu_uuid",
    ),
    Option(
        "reconcile.opsListen",
        "--ops-listen",
        _address,
        "HOST:PORT",
        "where to answer /healthz, /readyz and /metrics (HTTP)",
        "127.0.0.1:8081",
    ),
    _BY_FLAG["--log-level"],
)

# One file may hold the settings of both commands.
_KEYS = frozenset([option.key for option in (*OPTIONS, *RECONCILE_OPTIONS)])


def add_options(parser: argparse.ArgumentParser, options: Sequence[Option] = OPTIONS) -> None:
    """Give *parser* a flag for each of *options*, with its default and its variable."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"settings as YAML, under the names in parentheses (variable {ENV_PREFIX}CONFIG)",
    )
    for option in options:
        default = f"; default {option.default}" if option.default else ""
        text = f"{option.help} ({option.key}, {option.variable}{default})"
        many: dict[str, Any] = {"action": "append"} if option.read is _texts else {}
        if option.read is _flag:
            # `--refuse-early` alone means true.
            many = {"nargs": "?", "const": "true"}
        parser.add_argument(
            option.flag, metavar=option.metavar, help=text.replace("%", "%%"), **many
        )


def load_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> ServeSettings:
    """
    Settings from flags, else `GATEWRIGHT_*` variables, else the settings file, else defaults.

    *flags* are the parsed arguments by name; None means not given. Variables of other names
    are left alone: Kubernetes itself sets `GATEWRIGHT_SERVICE_HOST` and the like for a Service
    of that name.

    Raises:
        SettingsError: a value or key is wrong, or the file is not readable.
    """
    environment = os.environ if environment is None else environment
    values = _gather(OPTIONS, flags, environment)
    if values["policies"] is None and not values["kubernetes"]:
        raise SettingsError("where the policies are must be given: --policies DIR, or --kubernetes")
    if values["policies"] is not None and values["kubernetes"]:
        raise SettingsError("--policies and --kubernetes exclude one another")
    if values["kubeconfig"] is not None and not values["kubernetes"]:
        raise SettingsError("--kubeconfig goes with --kubernetes")
    if values["api_tokens"] is not None and values["kubernetes"]:
        raise SettingsError("--api-tokens goes with --policies; a cluster knows its callers")
    if (values["tls_cert"] is None) != (values["tls_key"] is None):
        raise SettingsError("--tls-cert and --tls-key go together")
    if values["ca_bundle"] is not None and values["tls_cert"] is None:
        raise SettingsError("--ca-bundle goes with --tls-cert; other certificates say theirs")
    if values["cert_secret"] and values["tls_cert"] is not None:
        raise SettingsError("--cert-secret and --tls-cert exclude one another")
    if values["ca_lifetime"] < values["cert_lifetime"]:
        raise SettingsError("--ca-lifetime must not be shorter than --cert-lifetime")
    if values["cert_secret"] and not values["own_namespace"]:
        raise SettingsError("--cert-secret goes with --own-namespace: where the Secret is")
    if values["cert_secret"] and not values["kubernetes"]:
        raise SettingsError("--cert-secret goes with --kubernetes")
    for attribute in (
        "mutating_configuration",
        "validating_configuration",
        "cluster_role",
        "deployment",
    ):
        flag = f"--{attribute.replace('_', '-')}"
        if values[attribute] and not values["kubernetes"]:
            raise SettingsError(f"{flag} goes with --kubernetes")
        if values[attribute] and not values["own_namespace"]:
            raise SettingsError(f"{flag} goes with --own-namespace: of several replicas one leads")
    if values["cert_dir"] is None and values["tls_cert"] is None:
        values["cert_dir"] = _state_directory(environment) / "gatewright" / "certs"
    return ServeSettings(**values)


def load_reconcile_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> ReconcileSettings:
    """
    Settings of `reconcile`, from the same places as those of `serve`.

    Raises:
        SettingsError: a value or key is wrong, or the file is not readable.
    """
    environment = os.environ if environment is None else environment
    values = _gather(RECONCILE_OPTIONS, flags, environment)
    if not values["kubernetes"]:
        raise SettingsError("there is nothing to reconcile without a cluster: --kubernetes")
    if not values["namespace"]:
        raise SettingsError("--namespace must not be empty")
    values["prometheus_url"] = values["prometheus_url"] or ""
    if values["prometheus_token_file"] is not None and not values["prometheus_url"]:
        raise SettingsError(
            "--prometheus-token-file goes with --prometheus-url: a token is for nobody else"
        )
    return ReconcileSettings(**values)


def _gather(
    options: Sequence[Option], flags: Mapping[str, Any], environment: Mapping[str, str]
) -> dict[str, Any]:
    """The value of each of *options* by its attribute; None where none is given."""
    config = flags.get("config") or environment.get(f"{ENV_PREFIX}CONFIG")
    in_file = _read_file(Path(config).expanduser()) if config else {}
    values: dict[str, Any] = {}
    for option in options:
        sources = (
            (flags.get(option.attribute), option.flag),
            # An empty variable is what a template without a value leaves behind.
            (environment.get(option.variable) or None, option.variable),
            (in_file.get(option.key), f"{config}: {option.key}"),
            (option.default, option.flag),
        )
        given, origin = next(filter(lambda source: source[0] is not None, sources), (None, ""))
        values[option.attribute] = None if given is None else _read(option, given, origin)
    return values


def _read(option: Option, given: Any, origin: str) -> Any:
    try:
        return option.read(given)
    except ValueError as e:
        raise SettingsError(f"{origin}: must be {e}, not {given!r}") from None


def _read_file(path: Path) -> dict[str, Any]:
    """The settings in *path* by their dotted keys, nested or not."""
    try:
        documents = load_file(path)
    except ManifestError as e:
        raise SettingsError(str(e)) from e
    if not documents:
        return {}
    if len(documents) > 1 or not isinstance(documents[0].value, dict):
        raise SettingsError(f"{path}: must be one mapping of settings")

    found: dict[str, Any] = {}
    for key, value in _flatten(documents[0].value, _KEYS):
        if key not in _KEYS:
            raise SettingsError(f'{path}: unknown setting "{key}"{did_you_mean(key, _KEYS)}')
        if key in found:
            raise SettingsError(f'{path}: "{key}" is set twice')
        found[key] = value
    return found


def _flatten(
    node: Mapping[str, Any], known: Set[str], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, dict) and any(name.startswith(f"{dotted}.") for name in known):
            yield from _flatten(value, known, f"{dotted}.")
        else:
            yield dotted, value


def _state_directory(environment: Mapping[str, str]) -> Path:
    # XDG Base Directory Specification: a relative path is invalid and to be ignored.
    if (given := environment.get("XDG_STATE_HOME", "")).startswith("/"):
        return Path(given)
    if (home := environment.get("HOME", "")).startswith("/"):
        return Path(home) / ".local" / "state"
    raise SettingsError("there is no home directory: give --cert-dir, or --tls-cert and --tls-key")
