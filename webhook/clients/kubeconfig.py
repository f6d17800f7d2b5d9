"""
How to reach an API server: a kubeconfig file, or the ServiceAccount of the Pod that we run in.

Read by ourselves: the Kubernetes library takes half a second and 76 MiB to import.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from webhook.clients.exec_credentials import fetch_credential
from webhook.errors import ManifestError, SettingsError
from webhook.model.files import load_bytes
from webhook.model.manifests import load_file

# RFC 6750 has fewer characters; whoever gives out others may.
_TOKEN = re.compile("[!-~]+")

# Where the kubelet puts what a Pod needs ("Accessing the Kubernetes API from a Pod").
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """
    Everything that a call needs.

    *server* is the URL without a slash at its end. *token_file* is read again while we run, and
    counts before *token*. *server_name* is the name that the certificate is checked against, if
    it is not the host's. *namespace* is the one to work in where none is said; empty if there is
    none.
    """

    server: str
    tls: ssl.SSLContext | None = None
    token: str = ""
    token_file: Path | None = None
    server_name: str = ""
    proxy: str = ""
    namespace: str = ""


def load_access(
    kubeconfig: Path | None,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    *,
    context: str = "",
    may_run: bool = False,
) -> KubeAccess:
    """
    What *kubeconfig* says; without one, `KUBECONFIG`, then the Pod's ServiceAccount, then
    `~/.kube/config`. A *context* other than the current one may be named.

    With *may_run*, a credential plugin that is named there is run: for commands that end soon,
    since what it gives out is not asked for again.

    Raises:
        SettingsError: there is none, or it can't be used.
    """
    # Variables of Kubernetes and not of ours, so `settings` does not know them.
    environment = os.environ if environment is None else environment

    def read(paths: Sequence[Path]) -> KubeAccess:
        return _from_files(paths, context, environment if may_run else None)

    if kubeconfig is not None:
        return read([kubeconfig])
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        # As kubectl does: those that are not there are left out.
        return read([path for path in listed if path.exists()] or listed[:1])
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if host and not context and (service_account / "token").exists():
        port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
        return KubeAccess(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            _trust(_read(service_account / "ca.crt")),
            token_file=service_account / "token",
            namespace=_read_own_namespace(service_account),
        )
    home = environment.get("HOME", "")
    usual = Path(home, ".kube", "config") if home else None
    if usual is not None and usual.exists():
        return read([usual])
    raise SettingsError(
        "no cluster is configured: give --kubeconfig FILE, set KUBECONFIG, or run in a Pod with"
        " a ServiceAccount"
    )


def _from_files(
    paths: Iterable[Path], context_name: str, environment: Mapping[str, str] | None
) -> KubeAccess:
    """
    A context of several files, the current one if none is named: of two that say the same, the
    first counts. Programs are run in *environment*; with None, none is.
    """
    named: dict[str, dict[str, tuple[Any, Path]]] = {"clusters": {}, "users": {}, "contexts": {}}
    current = context_name
    where = Path()
    for path in paths:
        content = _load(path)
        if not current and isinstance(content.get("current-context"), str):
            current, where = content["current-context"], path
        for section, entries in named.items():
            listed = content.get(section)
            if not isinstance(listed, list | None):
                raise SettingsError(f"{path}: {section} must be a list")
            for entry in listed or ():
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    # `contexts` holds entries of `context`, and so on.
                    value = entry.get(section.removesuffix("s"))
                    entries.setdefault(entry["name"], (value, path))
        where = where if where != Path() else path
    if not current:
        raise SettingsError(f"{where}: has no current-context")

    def find(section: str, name: Any) -> tuple[dict[str, Any], Path]:
        value, path = named[section].get(str(name), (None, where))
        if not isinstance(value, dict):
            raise SettingsError(f"{where}: there is no entry {str(name)!r} in {section}")
        return value, path

    context, _ = find("contexts", current)
    cluster, cluster_path = find("clusters", context.get("cluster"))
    user: tuple[dict[str, Any], Path] = ({}, where)
    if context.get("user"):
        user = find("users", context["user"])
    if "exec" in user[0] and environment is not None:
        given = fetch_credential(user[0]["exec"], user[1], cluster, environment)
        user = given, user[1]
    access = _access(cluster, cluster_path, *user)
    return replace(access, namespace=_text(context, "namespace", where))


def _access(
    cluster: dict[str, Any], cluster_path: Path, user: dict[str, Any], user_path: Path
) -> KubeAccess:
    server = _text(cluster, "server", cluster_path)
    if not server.startswith(("https://", "http://")):
        raise SettingsError(f"{cluster_path}: the cluster has no server URL")
    for word in ("exec", "auth-provider", "username"):
        if word in user:
            raise SettingsError(
                f"{user_path}: {word} is not supported; use a token, a tokenFile or a client"
                " certificate"
            )
    tls = None
    if server.startswith("https://"):
        tls = _trust(_data(cluster, "certificate-authority", cluster_path))
        is_insecure = cluster.get("insecure-skip-tls-verify")
        if not isinstance(is_insecure, bool | None):
            raise SettingsError(f"{cluster_path}: insecure-skip-tls-verify must be true or false")
        if is_insecure:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        _add_client_certificate(tls, user, user_path)
    token_file = _text(user, "tokenFile", user_path)
    return KubeAccess(
        server.rstrip("/"),
        tls,
        token=_token(user, user_path),
        token_file=_beside(user_path, token_file) if token_file else None,
        server_name=_text(cluster, "tls-server-name", cluster_path),
        proxy=_text(cluster, "proxy-url", cluster_path),
    )


def is_token(text: str) -> bool:
    """Whether *text* can stand in a header, in which it may be neither split nor added to."""
    return _TOKEN.fullmatch(text) is not None


def _token(user: dict[str, Any], path: Path) -> str:
    token = user.get("token")
    # Programs end what they write with a line break.
    token = token.rstrip("\r\n") if isinstance(token, str) else token
    if not token:
        return ""
    if not isinstance(token, str) or not is_token(token):
        # Not quoted, as it may be one but for a character.
        raise SettingsError(f"{path}: token is none: it must be a text of visible ASCII characters")
    return token


def _text(section: dict[str, Any], key: str, path: Path) -> str:
    """What *section* says of *key*; ``""`` if nothing."""
    value = section.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or (value and not value.isprintable()):
        raise SettingsError(f"{path}: {key} must be a text in one line")
    return value


def _load(path: Path) -> dict[str, Any]:
    try:
        documents = load_file(path)
    except ManifestError as error:
        raise SettingsError(str(error)) from error
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise SettingsError(f"{path}: is no kubeconfig")
    return documents[0].value


def _data(section: dict[str, Any], key: str, path: Path) -> bytes:
    """What `KEY-data` holds in base64, or the file that `KEY` names; empty if neither is there."""
    packed = section.get(f"{key}-data")
    if packed:
        try:
            # May be folded into lines.
            return base64.b64decode("".join(packed.split()), validate=True)
        except (ValueError, AttributeError):
            raise SettingsError(f"{path}: {key}-data is no base64") from None
    named = _text(section, key, path)
    return _read(_beside(path, named)) if named else b""


def _beside(path: Path, name: str) -> Path:
    """Names in a kubeconfig are relative to where it lies."""
    return path.parent / name


def _read(path: Path) -> bytes:
    try:
        return load_bytes(path)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else None
        raise SettingsError(f"cannot read {path}: {problem or error}") from error


def _read_own_namespace(service_account: Path) -> str:
    try:
        return load_bytes(service_account / "namespace").decode("ascii").strip()
    except (OSError, ValueError):
        return ""


def _trust(ca: bytes) -> ssl.SSLContext:
    try:
        # Without one, those that the system trusts.
        return ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, ValueError):
        raise SettingsError(
            "the API server's certificate authority is no PEM certificate"
        ) from None


def _add_client_certificate(tls: ssl.SSLContext, user: dict[str, Any], path: Path) -> None:
    certificate = _data(user, "client-certificate", path)
    key = _data(user, "client-key", path)
    if not certificate and not key:
        return
    # OpenSSL reads both from a file only. Made for us alone, and gone at once.
    with tempfile.NamedTemporaryFile(prefix="gatewright-") as pair:
        pair.write(certificate + b"\n" + key)
        pair.flush()
        try:
            # Without one, OpenSSL would ask at the terminal for the password of a key that has one.
            tls.load_cert_chain(pair.name, password="")
        except (ssl.SSLError, OSError, ValueError):
            raise SettingsError(f"{path}: client certificate and key can't be used") from None
