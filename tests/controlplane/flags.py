"""The command lines of the three programs. Everything is on 127.0.0.1 and in one directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in a control plane's directory."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def home(self) -> Path:
        """The home directory of every program, kubectl's cache included."""
        return self.root / "home"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def certificates(self) -> Path:
        """kube-apiserver makes its own certificate here."""
        return self.root / "apiserver"

    @property
    def apiserver_certificate(self) -> Path:
        """The server's certificate, followed by that of its CA."""
        return self.certificates / "apiserver.crt"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        return self.root / "service-accounts.pem"

    @property
    def audit_policy(self) -> Path:
        return self.root / "audit-policy.yaml"

    @property
    def egress(self) -> Path:
        """By which way the API server reaches what is in the cluster."""
        return self.root / "egress.yaml"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"


def etcd_flags(layout: Layout, port: int, *, name: str) -> list[str]:
    url = f"http://127.0.0.1:{port}"
    peer_url = "http://127.0.0.1:0"
    return [
        f"--name={name}",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        # It has no peers, but listens for them all the same.
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster={name}={peer_url}",
        # Durability costs time, and nothing here outlives the directory.
        "--unsafe-no-fsync",
    ]


def apiserver_flags(
    layout: Layout, port: int, *, etcd_url: str, audit: bool, egress: bool = False
) -> list[str]:
    flags = [
        f"--etcd-servers={etcd_url}",
        f"--cert-dir={layout.certificates}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        # Without a default route it finds no address to advertise. Nobody uses it: there
        # are no Pods that look for the Service `kubernetes`.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=RBAC",
        f"--token-auth-file={layout.tokens}",
        # As in most clusters: whether a container may be privileged is for policies to say.
        "--allow-privileged=true",
    ]
    if egress:
        flags.append(f"--egress-selector-config-file={layout.egress}")
    if audit:
        flags += [
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit_log}",
            # When a request is answered, its line is in the file.
            "--audit-log-mode=blocking",
        ]
    return flags


def controller_manager_flags(layout: Layout, kubeconfig: Path) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--root-ca-file={layout.apiserver_certificate}",
        f"--service-account-private-key-file={layout.service_account_key}",
        # So the controllers act as system:serviceaccount:kube-system:…, as in a cluster.
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        # The default of 20 requests a second costs seconds at every start.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        # Without kubelets a node would soon be called dead, and its Pods evicted.
        "--controllers=*,-nodeipam,-nodelifecycle",
    ]
