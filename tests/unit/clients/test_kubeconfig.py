"""How an API server is found, and what a configuration must say."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from tests.unit.clients.apiserver import PATH, answer, api_server, refusal
from webhook.clients.kube import KubeClient
from webhook.clients.kubeconfig import KubeAccess, load_access
from webhook.errors import KubeError, SettingsError
from webhook.tls.directory import ensure_development_certificate


def write(path: Path, *, name: Any = "one", user: Any = None, **cluster: Any) -> Path:
    """A kubeconfig with one cluster, user and context, all of that name."""
    document = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": "https://api.example:6443", **cluster}}],
        "users": [{"name": name, "user": {"token": "t"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def certificates(tmp_path: Path) -> Any:
    return ensure_development_certificate(tmp_path / "certs", ("localhost",))


def test_a_context_names_server_and_token(file: Path) -> None:
    got = load_access(write(file, **{"tls-server-name": "kubernetes", "proxy-url": "http://p:1"}))

    assert (got.server, got.token) == ("https://api.example:6443", "t")
    assert (got.server_name, got.proxy) == ("kubernetes", "http://p:1")
    assert got.tls is not None
    assert got.tls.verify_mode is ssl.CERT_REQUIRED


def test_certificates_are_read_from_data_and_from_files(file: Path, certificates: Any) -> None:
    def pack(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    in_data = write(
        file,
        **{"certificate-authority-data": pack(certificates.ca)},
        user={
            "client-certificate-data": pack(certificates.certificate),
            "client-key-data": pack(certificates.key),
        },
    )
    got = load_access(in_data).tls
    assert got is not None
    assert len(got.get_ca_certs()) == 1

    # Names are relative to where the file lies.
    in_files = write(
        file,
        **{"certificate-authority": "certs/ca.crt"},
        user={
            "client-certificate": str(certificates.certificate),
            "client-key": str(certificates.key),
        },
    )
    got = load_access(in_files).tls
    assert got is not None
    assert len(got.get_ca_certs()) == 1


def test_nothing_of_a_client_key_is_left_in_a_file(
    file: Path, certificates: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    user = {
        "client-certificate": str(certificates.certificate),
        "client-key": str(certificates.key),
    }

    load_access(write(file, user=user))

    assert list(directory.iterdir()) == []


def test_without_verification_any_certificate_does(file: Path) -> None:
    path = write(file, name="one", **{"insecure-skip-tls-verify": True})
    got = load_access(path).tls

    assert got is not None
    assert got.verify_mode is ssl.CERT_NONE


def test_the_variable_may_name_several_files_and_the_first_that_says_it_counts(
    tmp_path: Path,
) -> None:
    first = write(tmp_path / "a", name="one", server="https://one:1")
    second = write(tmp_path / "b", name="two", server="https://two:2")
    listed = os.pathsep.join([str(tmp_path / "none"), str(second), str(first)])

    assert load_access(None, {"KUBECONFIG": listed}).server == "https://two:2"
    assert load_access(first, {"KUBECONFIG": listed}).server == "https://one:1"


def test_a_pod_uses_its_service_account(tmp_path: Path, certificates: Any) -> None:
    (tmp_path / "token").write_text("pod")
    (tmp_path / "ca.crt").write_bytes(certificates.ca.read_bytes())
    surroundings = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    got = load_access(None, surroundings, tmp_path)
    assert (got.server, got.token_file) == ("https://10.0.0.1:443", tmp_path / "token")
    got = load_access(None, {"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert got.server == "https://[fd00::1]:443"


def test_at_home_the_usual_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", server="https://home:1")

    assert load_access(None, {"HOME": str(tmp_path)}).server == "https://home:1"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("a: [", "config", id="no-yaml"),
        pytest.param("[]", "is no kubeconfig", id="no-object"),
        pytest.param("{}", "has no current-context", id="no-context"),
        pytest.param("current-context: x", "no entry 'x' in contexts", id="unknown-context"),
        pytest.param(
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}]}",
            "no entry 'c' in clusters",
            id="unknown-cluster",
        ),
        pytest.param(
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {}}]}",
            "the cluster has no server URL",
            id="no-server",
        ),
    ],
)
def test_a_file_that_says_too_little_is_a_clear_error(file: Path, text: str, wanted: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingsError, match=wanted) as caught:
        load_access(file)
    assert str(file) in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "cluster", "wanted"),
    [
        pytest.param({"exec": {}}, {}, "exec is not supported", id="exec"),
        pytest.param({"client-certificate-data": "!"}, {}, "is no base64", id="base64"),
        pytest.param({"client-certificate": "none"}, {}, "cannot read", id="no-file"),
        pytest.param({}, {"certificate-authority-data": "YQ=="}, "is no PEM", id="ca"),
        pytest.param(
            {"client-certificate-data": "YQ==", "client-key-data": "YQ=="},
            {},
            "can't be used",
            id="no-pair",
        ),
        pytest.param({"token": "a\nb"}, {}, "token is none", id="token-of-two-lines"),
        pytest.param({"token": "a b"}, {}, "token is none", id="token-with-a-space"),
        pytest.param({"token": "a\u20ac"}, {}, "token is none", id="token-beyond-ascii"),
        pytest.param({"token": 5}, {}, "token is none", id="token-number"),
        pytest.param({"tokenFile": 5}, {}, "tokenFile must be a text", id="file-number"),
        pytest.param({"tokenFile": "a\0b"}, {}, "tokenFile must be a text", id="file-nul"),
        pytest.param({"client-certificate": ["a"]}, {}, "must be a text", id="file-list"),
        pytest.param({"client-key-data": 5}, {}, "is no base64", id="data-number"),
        pytest.param({"client-key-data": "\u00e9"}, {}, "is no base64", id="data-beyond-ascii"),
        pytest.param({}, {"server": 5}, "server must be a text", id="server-number"),
        pytest.param({}, {"server": "https://a\nb"}, "server must be a text", id="server-lines"),
        pytest.param({}, {"tls-server-name": ["a"]}, "must be a text", id="name-list"),
        pytest.param({}, {"proxy-url": {"a": 1}}, "must be a text", id="proxy-object"),
        pytest.param(
            {}, {"insecure-skip-tls-verify": "true"}, "must be true or false", id="flag-text"
        ),
    ],
)
def test_what_can_not_be_used_is_a_clear_error(
    file: Path, user: Any, cluster: Any, wanted: str
) -> None:
    with pytest.raises(SettingsError, match=wanted):
        load_access(write(file, user=user, **cluster))


@pytest.mark.parametrize("text", ["users: 5", "contexts: {}", "clusters: x"])
def test_a_list_that_is_none_is_a_clear_error(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingsError, match=f"{text.partition(':')[0]} must be a list"):
        load_access(file)


def test_a_line_break_after_a_token_is_none_of_it(file: Path) -> None:
    assert load_access(write(file, user={"token": "t\r\n"})).token == "t"


def test_a_key_with_a_password_is_refused_and_nobody_asked_for_it(
    file: Path, certificates: Any
) -> None:
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    user = {
        "client-certificate": str(certificates.certificate),
        "client-key-data": base64.b64encode(locked).decode(),
    }

    with pytest.raises(SettingsError, match="client certificate and key can't be used"):
        load_access(write(file, user=user))


@pytest.mark.slow
def test_another_context_may_be_named_and_says_its_namespace(file: Path) -> None:
    two = yaml.safe_load(write(file).read_text())
    two["clusters"].append({"name": "b", "cluster": {"server": "https://b:1"}})
    two["contexts"].append({"name": "b", "context": {"cluster": "b", "namespace": "team-b"}})
    file.write_text(yaml.safe_dump(two))

    current, other = load_access(file), load_access(file, context="b")

    assert (current.server, current.namespace) == ("https://api.example:6443", "")
    assert (other.server, other.namespace) == ("https://b:1", "team-b")
    with pytest.raises(SettingsError, match="no entry 'c' in contexts"):
        load_access(file, context="c")


@pytest.mark.slow
def test_a_pod_works_in_its_own_namespace_unless_a_context_is_named(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", ""), ("namespace", "team-a\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config")
    around = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}

    assert load_access(None, around, tmp_path).namespace == "team-a"
    assert load_access(None, around, tmp_path, context="one").token == "t"


def test_without_any_configuration_all_ways_are_named() -> None:
    with pytest.raises(SettingsError, match="--kubeconfig FILE, set KUBECONFIG, or run in a Pod"):
        load_access(None, {})


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="none"):
        load_access(tmp_path / "none")
    with pytest.raises(SettingsError, match="none"):
        load_access(None, {"KUBECONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize("text", ["a\nb", "a b", "a\x01"])
async def test_a_file_that_holds_no_token_is_an_error_of_the_call(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "token").write_text(text)
    client = KubeClient(KubeAccess("http://127.0.0.1:1", token_file=tmp_path / "token"))
    with pytest.raises(KubeError, match="there is no token in"):
        await client.request("GET", PATH)
    await client.close()


# -- calls -----------------------------------------------------------------------------------------


async def test_a_refusal_is_told_with_its_reason() -> None:
    async with api_server(refusal(429, "TooManyRequests", **{"Retry-After": "7"})) as (_, client):
        with pytest.raises(KubeError) as caught:
            await client.request("GET", PATH)

    error = caught.value
    assert (error.status, error.reason, error.retry_after_s) == (429, "TooManyRequests", 7.0)
    assert str(error) == "TooManyRequests: because TooManyRequests"


async def test_an_answer_that_is_no_status_is_told_in_its_own_words() -> None:
    async with api_server(answer("<h1>Bad gateway</h1>", 502)) as (_, client):
        with pytest.raises(KubeError) as caught:
            await client.request("GET", PATH)

    assert (caught.value.status, caught.value.reason) == (502, "BadGateway")
    assert caught.value.message == "<h1>Bad gateway</h1>"


async def test_a_redirect_is_not_followed_since_the_token_is_for_one_server() -> None:
    away = answer("", 302, Location="http://127.0.0.1:1/")
    async with api_server(away) as (server, client):
        with pytest.raises(KubeError) as caught:
            await client.request("GET", PATH)

    assert caught.value.status == 302
    assert len(server.requests) == 1


async def test_no_answer_is_an_error_of_its_own() -> None:
    client = KubeClient(KubeAccess("http://127.0.0.1:1"))
    with pytest.raises(KubeError) as caught:
        await client.request("GET", PATH)
    await client.close()

    assert (caught.value.status, caught.value.reason) == (0, "Unreachable")
    assert caught.value.message.startswith("127.0.0.1:1: ")
