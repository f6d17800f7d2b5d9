"""
How to reach an API server: a kubeconfig file, or the ServiceAccount of the Pod that we run in.

Read by ourselves: the Kubernetes library takes half a second and 76 MiB to import.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webhook.errors import ManifestError, SettingsError
from webhook.model.manifests import load_file

# Where the kubelet puts what a Pod needs ("Accessing the Kubernetes API from a Pod").
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """
    Everything that a call needs.

    *server* is the URL without a slash at its end. *token_file* is read again while we run, and
    counts before *token*. *server_name* is the name that the certificate is checked against, if
    it is not the host's.
    """

    server: str
    tls: ssl.SSLContext | None = None
    token: str = ""
    token_file: Path | None = None
    server_name: str = ""
    proxy: str = ""


def load_access(
    kubeconfig: Path | None,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> KubeAccess:
    """
    What *kubeconfig* says; without one, `KUBECONFIG`, then the Pod's ServiceAccount, then
    `~/.kube/config`.

    Raises:
        SettingsError: there is none, or it can't be used.
    """
    # Variables of Kubernetes and not of ours, so `settings` does not know them.
    environment = os.environ if environment is None else environment
    if kubeconfig is not None:
        return _from_files([kubeconfig])
    listed = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        # As kubectl does: those that are not there are left out.
        return _from_files([path for path in listed if path.exists()] or listed[:1])
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if host and (service_account / "token").exists():
        port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
        return KubeAccess(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            _trust(_read(service_account / "ca.crt")),
            token_file=service_account / "token",
        )
    home = environment.get("HOME", "")
    usual = Path(home, ".kube", "config") if home else None
    if usual is not None and usual.exists():
        return _from_files([usual])
    raise SettingsError(
        "no cluster is configured: give --kubeconfig FILE, set KUBECONFIG, or run in a Pod with"
        " a ServiceAccount"
    )


def _from_files(paths: Iterable[Path]) -> KubeAccess:
    """The current context of several files: of two that say the same, the first counts."""
    named: dict[str, dict[str, tuple[Any, Path]]] = {"clusters": {}, "users": {}, "contexts": {}}
    current = ""
    where = Path()
    for path in paths:
        content = _load(path)
        if not current and isinstance(content.get("current-context"), str):
            current, where = content["current-context"], path
        for section, entries in named.items():
            for entry in content.get(section) or ():
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
    return _access(cluster, cluster_path, *user)


def _access(
    cluster: dict[str, Any], cluster_path: Path, user: dict[str, Any], user_path: Path
) -> KubeAccess:
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
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
        if cluster.get("insecure-skip-tls-verify") is True:
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        _add_client_certificate(tls, user, user_path)
    token_file = user.get("tokenFile")
    return KubeAccess(
        server.rstrip("/"),
        tls,
        token=str(user.get("token") or ""),
        token_file=_beside(user_path, token_file) if token_file else None,
        server_name=str(cluster.get("tls-server-name") or ""),
        proxy=str(cluster.get("proxy-url") or ""),
    )


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
            return base64.b64decode(str(packed), validate=True)
        except binascii.Error:
            raise SettingsError(f"{path}: {key}-data is no base64") from None
    named = section.get(key)
    return _read(_beside(path, named)) if named else b""


def _beside(path: Path, name: Any) -> Path:
    """Names in a kubeconfig are relative to where it lies."""
    return path.parent / str(name)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror or error}") from error


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
            tls.load_cert_chain(pair.name)
        except (ssl.SSLError, OSError):
            raise SettingsError(f"{path}: client certificate and key can't be used") from None
