from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from webhook.api.limits.bodies import MAX_BODY_BYTES
from webhook.api.limits.connections import MAX_CONNECTIONS
from webhook.errors import SettingsError
from webhook.model.settings import EngineSettings
from webhook.settings import (
    OPTIONS,
    RECONCILE_OPTIONS,
    Address,
    ReconcileSettings,
    ServeSettings,
    add_options,
    load_reconcile_settings,
    load_settings,
)

HOME = {"HOME": "/home/ada"}


def settings(
    *flags: str, environment: dict[str, str] | None = None, file: Path | None = None
) -> ServeSettings:
    """Settings from a command line; the policies are given unless *flags* give them."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    if "--policies" not in flags:
        flags = ("--policies", "/policies", *flags)
    if file is not None:
        flags = (*flags, "--config", str(file))
    return load_settings(vars(parser.parse_args(flags)), {**HOME, **(environment or {})})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_defaults_are_those_of_a_laptop() -> None:
    got = settings()

    assert got.listen == Address("127.0.0.1", 8443)
    assert got.ops_listen == Address("127.0.0.1", 8080)
    assert got.cert_dir == Path("/home/ada/.local/state/gatewright/certs")
    assert got.max_body_bytes == MAX_BODY_BYTES == 24 * 1024 * 1024
    assert got.max_connections == MAX_CONNECTIONS
    assert got.log_level == "info"
    assert (got.tls_cert, got.tls_key, got.client_ca) == (None, None, None)


def test_the_engine_gets_its_own_defaults() -> None:
    assert settings().engine == EngineSettings()


def test_the_engine_gets_what_is_set() -> None:
    got = settings(
        "--cluster-name=prod",
        "--project-label=a/b,c/d",
        "--department-label=e/f",
        "--refuse-early=false",
        "--trusted-controllers=system:serviceaccount:ops:*",
        "--trusted-controllers=jobset",
        "--own-namespace=gatewright",
    )

    assert got.engine == EngineSettings(
        cluster_name="prod",
        project_labels=("a/b", "c/d"),
        department_label="e/f",
        refuse_early=False,
        trusted_controllers=("system:serviceaccount:ops:*", "jobset"),
        own_namespace="gatewright",
    )


def test_a_flag_wins_over_a_variable_and_that_over_the_file(file: Path) -> None:
    file.write_text("logLevel: error\nlisten: 10.0.0.3:3\nopsListen: 10.0.0.3:3\n")
    environment = {"GATEWRIGHT_LISTEN": "10.0.0.2:2", "GATEWRIGHT_OPS_LISTEN": "10.0.0.2:2"}

    got = settings("--listen", "10.0.0.1:1", environment=environment, file=file)

    assert got.listen == Address("10.0.0.1", 1)
    assert got.ops_listen == Address("10.0.0.2", 2)
    assert got.log_level == "error"


def test_the_file_may_be_named_by_a_variable(file: Path) -> None:
    file.write_text("logLevel: debug\n")

    assert settings(environment={"GATEWRIGHT_CONFIG": str(file)}).log_level == "debug"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("admission: {refuseEarly: false}", id="nested"),
        pytest.param("admission.refuseEarly: false", id="dotted"),
        pytest.param('admission: {refuseEarly: "false"}', id="text"),
        pytest.param('{"admission": {"refuseEarly": false}}', id="json"),
    ],
)
def test_a_file_may_nest_its_names_or_not(file: Path, text: str) -> None:
    file.write_text(text)

    assert settings(file=file).refuse_early is False


@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(
            {
                "kubernetes": False,
                "kubeconfig": None,
                "cert_secret": "",
                "mutating_configuration": "",
                "validating_configuration": "",
                "cluster_role": "",
                "deployment": "",
            },
            id="directory",
        ),
        pytest.param({"policies": None, "api_tokens": None, "cert_secret": ""}, id="cluster"),
        pytest.param(
            {
                "policies": None,
                "api_tokens": None,
                "tls_cert": None,
                "tls_key": None,
                "ca_bundle": None,
            },
            id="cluster-with-a-secret",
        ),
    ],
)
def test_every_setting_can_be_given_in_every_way(file: Path, left_out: dict[str, Any]) -> None:
    given = [option for option in OPTIONS if option.attribute not in left_out]
    file.write_text("".join(f"{option.key}: {EXAMPLES[option.key][0]}\n" for option in given))
    flags = [part for option in given for part in (option.flag, EXAMPLES[option.key][0])]
    variables = {option.variable: EXAMPLES[option.key][0] for option in given}
    parser = argparse.ArgumentParser()
    add_options(parser)

    values = {option.attribute: EXAMPLES[option.key][1] for option in given}
    want = ServeSettings(**{**values, **left_out})
    assert load_settings(vars(parser.parse_args(flags)), HOME) == want
    assert load_settings({}, variables) == want
    assert load_settings({}, {"GATEWRIGHT_CONFIG": str(file)}) == want


EXAMPLES: dict[str, tuple[str, Any]] = {
    "policies": ("/p", Path("/p")),
    "kubernetes": ("true", True),
    "kubeconfig": ("/u", Path("/u")),
    "apiTokens": ("/t", Path("/t")),
    "writeStatus": ("false", False),
    "listen": ("0.0.0.0:1", Address("0.0.0.0", 1)),
    "opsListen": ("localhost:2", Address("localhost", 2)),
    "tlsCert": ("/c", Path("/c")),
    "tlsKey": ("/k", Path("/k")),
    "certDir": ("/d", Path("/d")),
    "clientCa": ("/a", Path("/a")),
    "certSecret": ("s", "s"),
    "serviceName": ("n", "n"),
    "certs.lifetime": ("24h", timedelta(days=1)),
    "certs.caLifetime": ("48h", timedelta(days=2)),
    "caBundleFile": ("/b", Path("/b")),
    "registrations.mutating": ("m", "m"),
    "registrations.validating": ("v", "v"),
    "registrations.excludedNamespaces": ("cni,storage", ("cni", "storage")),
    "clusterRole": ("r", "r"),
    "deployment": ("o", "o"),
    "events": ("false", False),
    "reports.enabled": ("false", False),
    "reports.scanPeriod": ("30m", timedelta(minutes=30)),
    "cluster": ("prod", "prod"),
    "scope.projectLabel": ("p/q", ("p/q",)),
    "scope.departmentLabel": ("d/e", "d/e"),
    "admission.refuseEarly": ("false", False),
    "trustedControllers": ("x,y", ("x", "y")),
    "ownNamespace": ("gatewright", "gatewright"),
    "logLevel": ("WARNING", "warning"),
    "maxBodyBytes": ("8000000", 8_000_000),
    "maxConnections": ("5000", 5000),
    "jq.deadlineSeconds": ("0.5", 0.5),
    "jq.memoryMib": ("512", 512),
    "shutdown.delaySeconds": ("5", 5.0),
    "shutdown.graceSeconds": ("7.5", 7.5),
}


def test_help_lists_every_setting_with_its_names_and_default() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)

    text = re.sub(r"\s+", "", parser.format_help())

    for option in OPTIONS:
        assert f"{option.flag}" in text
        assert f"({option.key},{option.variable}" in text
        if option.default:
            assert f"default{option.default}".replace(" ", "") in text


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        (":8443", Address("", 8443)),
        ("[::1]:8443", Address("::1", 8443)),
        ("gatewright.example:65535", Address("gatewright.example", 65535)),
    ],
)
def test_an_address_is_host_and_port(given: str, want: Address) -> None:
    assert settings("--listen", given).listen == want
    assert str(want) == given


@pytest.mark.parametrize(
    ("flag", "value", "accepted"),
    [
        ("--listen", "8443", "HOST:PORT"),
        ("--listen", "localhost:", "HOST:PORT"),
        ("--listen", "localhost:http", "HOST:PORT"),
        ("--listen", "localhost:65536", "HOST:PORT"),
        ("--listen", "localhost:-1", "HOST:PORT"),
        ("--listen", "localhost:٣", "HOST:PORT"),
        ("--log-level", "chatty", "one of debug, info"),
        ("--max-body-bytes", "16Mi", "a whole number"),
        ("--max-body-bytes", "1", "a whole number from 1024"),
        ("--max-connections", "0", "a whole number from 16"),
        ("--jq-deadline-seconds", "nan", "a number from 0.01"),
        ("--jq-deadline-seconds", "inf", "a number from 0.01"),
        ("--jq-deadline-seconds", "soon", "a number from 0.01"),
        ("--refuse-early", "maybe", "true or false"),
        ("--tls-cert", "", "a path"),
    ],
)
def test_a_wrong_value_is_an_error_that_says_what_is_accepted(
    flag: str, value: str, accepted: str
) -> None:
    with pytest.raises(SettingsError, match=rf"{flag}: must be {accepted}"):
        settings(f"{flag}={value}")


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(SettingsError, match=r"GATEWRIGHT_LOG_LEVEL: must be one of"):
        settings(environment={"GATEWRIGHT_LOG_LEVEL": "chatty"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "logLevl: info", 'unknown setting "logLevl"; did you mean "logLevel"', id="key"
        ),
        pytest.param("scope: {projectLable: a}", 'did you mean "scope.projectLabel"', id="nested"),
        pytest.param("jq: 5", 'unknown setting "jq"', id="group-without-names"),
        pytest.param("listen: {host: a}", "listen: must be HOST:PORT", id="value-is-object"),
        pytest.param("logLevel: [info]", "logLevel: must be one of", id="value-is-list"),
        pytest.param("trustedControllers: [1]", "must be texts", id="list-of-numbers"),
        pytest.param("maxBodyBytes: true", "must be a whole number", id="boolean-as-number"),
        pytest.param("jq.memoryMib: 512\njq: {memoryMib: 1}", "is set twice", id="twice"),
        pytest.param("- logLevel", "one mapping", id="list"),
        pytest.param("a: 1\n---\nb: 2", "one mapping", id="two-documents"),
        pytest.param("a: [", "settings.yaml:", id="no-yaml"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_where(file: Path, text: str, problem: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingsError, match=re.escape(problem)):
        settings(file=file)


@pytest.mark.parametrize("text", ["", "# nothing set\n", "{}"])
def test_an_empty_file_sets_nothing(file: Path, text: str) -> None:
    file.write_text(text)

    assert settings(file=file) == settings()


def test_a_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"settings\.yaml"):
        settings(file=file)


def test_policies_must_be_given() -> None:
    with pytest.raises(SettingsError, match="--policies DIR"):
        load_settings({}, HOME)


def test_policies_come_from_a_directory_or_from_a_cluster() -> None:
    with pytest.raises(SettingsError, match="exclude one another"):
        settings("--kubernetes")


def test_a_cluster_knows_its_callers_without_a_token_file(file: Path) -> None:
    file.write_text("kubernetes: true\napiTokens: /t\n")
    with pytest.raises(SettingsError, match="--api-tokens goes with --policies"):
        load_settings({}, {**HOME, "GATEWRIGHT_CONFIG": str(file)})


def test_a_kubeconfig_is_of_no_use_to_a_directory() -> None:
    with pytest.raises(SettingsError, match="--kubeconfig goes with --kubernetes"):
        settings("--kubeconfig=/u")


@pytest.mark.parametrize(
    "flag", ["--mutating-configuration=g", "--validating-configuration=g", "--deployment=g"]
)
def test_what_one_of_several_servers_writes_needs_a_cluster_and_a_place_for_a_lease(
    flag: str,
) -> None:
    name = flag.partition("=")[0]
    with pytest.raises(SettingsError, match=f"{name} goes with --kubernetes"):
        settings(flag, "--own-namespace=gatewright")

    cluster = {**HOME, "GATEWRIGHT_KUBERNETES": "true"}
    flags = {name.removeprefix("--").replace("-", "_"): "g"}
    with pytest.raises(SettingsError, match=f"{name} goes with --own-namespace"):
        load_settings(flags, cluster)
    got = load_settings(flags, {**cluster, "GATEWRIGHT_OWN_NAMESPACE": "gatewright"})
    assert getattr(got, next(iter(flags))) == "g"


def test_authorities_of_a_certificate_go_with_it() -> None:
    with pytest.raises(SettingsError, match="--ca-bundle goes with --tls-cert"):
        settings("--ca-bundle=/ca")
    assert settings("--ca-bundle=/ca", "--tls-cert=/c", "--tls-key=/k").ca_bundle == Path("/ca")


@pytest.mark.parametrize("flag", ["--tls-cert=/c", "--tls-key=/k"])
def test_half_a_pair_is_an_error(flag: str) -> None:
    with pytest.raises(SettingsError, match="go together"):
        settings(flag)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        pytest.param(
            ["--tls-cert=/c", "--tls-key=/k"], "--cert-secret and --tls-cert exclude", id="files"
        ),
        pytest.param(["--own-namespace="], "goes with --own-namespace", id="namespace"),
        pytest.param(["--kubernetes=false"], "goes with --kubernetes", id="no-cluster"),
        pytest.param(
            ["--cert-lifetime=2h", "--ca-lifetime=1h"],
            "--ca-lifetime must not be shorter than --cert-lifetime",
            id="lifetimes",
        ),
        pytest.param(
            ["--cert-lifetime=1s"], "--cert-lifetime: must be a duration from 10s", id="short"
        ),
        pytest.param(["--ca-lifetime=90d"], "--ca-lifetime: must be a duration", id="days"),
    ],
)
def test_a_secret_for_certificates_needs_what_goes_with_it(flags: list[str], problem: str) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    usual = ["--kubernetes", "--cert-secret=s", "--own-namespace=n"]
    policies = ["--policies=/p"] if "--kubernetes=false" in flags else []

    with pytest.raises(SettingsError, match=problem):
        load_settings(vars(parser.parse_args([*usual, *policies, *flags])), HOME)


def test_variables_that_kubernetes_sets_for_a_service_are_left_alone() -> None:
    environment = {
        "GATEWRIGHT_SERVICE_HOST": "10.96.0.1",
        "GATEWRIGHT_PORT": "tcp://10.96.0.1:443",
        "GATEWRIGHT_PORT_443_TCP": "tcp://10.96.0.1:443",
    }

    assert settings(environment=environment) == settings()


def test_an_empty_variable_is_as_none() -> None:
    assert settings(environment={"GATEWRIGHT_CLIENT_CA": ""}) == settings()


@pytest.mark.parametrize(
    ("environment", "want"),
    [
        pytest.param({"XDG_STATE_HOME": "/state"}, "/state/gatewright/certs", id="xdg"),
        pytest.param(
            {"XDG_STATE_HOME": "relative"},
            "/home/ada/.local/state/gatewright/certs",
            id="relative-is-ignored",
        ),
    ],
)
def test_certificates_go_to_the_users_state_directory(
    environment: dict[str, str], want: str
) -> None:
    assert settings(environment=environment).cert_dir == Path(want)


def test_who_has_no_home_must_say_where_certificates_go() -> None:
    with pytest.raises(SettingsError, match="--cert-dir"):
        load_settings({"policies": "/p"}, {})

    given = load_settings({"policies": "/p", "tls_cert": "/c", "tls_key": "/k"}, {})
    assert given.cert_dir is None


# --- reconcile ---


def reconcile_settings(
    *flags: str, environment: dict[str, str] | None = None, file: Path | None = None
) -> ReconcileSettings:
    parser = argparse.ArgumentParser()
    add_options(parser, RECONCILE_OPTIONS)
    if file is not None:
        flags = (*flags, "--config", str(file))
    return load_reconcile_settings(vars(parser.parse_args(flags)), environment or {})


def test_the_reconciler_needs_nothing_to_be_set() -> None:
    got = reconcile_settings()

    assert (got.kubernetes, got.namespace) == (True, "gatewright")
    assert (got.prometheus_url, got.prometheus_token_file, got.prometheus_ca) == ("", None, None)
    assert got.device_label == "gpu_uuid"
    assert got.ops_listen == Address("127.0.0.1", 8081)


def test_one_file_may_hold_the_settings_of_both(file: Path) -> None:
    file.write_text(
        "opsListen: 10.0.0.1:1\n"
        "reconcile: {opsListen: 10.0.0.2:2, namespace: gpus}\n"
        "prometheus: {url: https://prometheus.example}\n"
        "logLevel: error\n"
    )
    got = reconcile_settings(file=file)

    assert (got.ops_listen, got.namespace) == (Address("10.0.0.2", 2), "gpus")
    assert got.prometheus_url == "https://prometheus.example"
    assert settings(file=file).ops_listen == Address("10.0.0.1", 1)
    assert (got.log_level, settings(file=file).log_level) == ("error", "error")


def test_the_reconciler_reads_its_variables() -> None:
    got = reconcile_settings(
        environment={"GATEWRIGHT_NAMESPACE": "gpus", "GATEWRIGHT_DEVICE_LABEL": "UUID"}
    )

    assert (got.namespace, got.device_label) == ("gpus", "UUID")


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        (["--kubernetes=false"], "without a cluster"),
        (["--namespace="], "--namespace must not be empty"),
        (["--prometheus-token-file=t"], "goes with --prometheus-url"),
        (["--ops-listen=8081"], "--ops-listen: must be HOST:PORT"),
    ],
)
def test_settings_of_the_reconciler_that_make_no_sense_are_refused(
    flags: list[str], want: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(want)):
        reconcile_settings(*flags)
