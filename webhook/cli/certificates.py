"""The certificate of `serve`: a development one, somebody's files, or a Secret that is kept."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn, Protocol

from cryptography import x509

from webhook.cli.stores import Start
from webhook.clients.owner import OwnDeployment
from webhook.errors import CertificateError, SettingsError
from webhook.settings import Address, ServeSettings
from webhook.telemetry.metrics import Metrics
from webhook.tls.bundle import AuthorityBundle, HeldBundle
from webhook.tls.bundle_file import BundleFile
from webhook.tls.context import ServerTls, pair_fault
from webhook.tls.directory import (
    DEVELOPMENT_HOSTS,
    CertificatePaths,
    ensure_development_certificate,
    replace_file,
)
from webhook.tls.held import CA_CERTIFICATE, find_voucher, read_certificates
from webhook.tls.issue import check_hosts
from webhook.tls.rotation import Lifetimes
from webhook.tls.secret import SecretCalls, SecretKeeper, ServedPair

_RENEWAL_CHECK_S = 6 * 3600.0

# Certificate and key in one file: a reader never meets one of each kind.
_PAIR_FILE = "serving.pem"
# One that is tried before it takes the place of the other.
_TRIED_FILE = "tried.pem"


class Certificates(Protocol):
    """Where the certificate comes from, to the one who listens with it."""

    @property
    def bundle(self) -> AuthorityBundle:
        """The authorities to register with."""

    @property
    def ca(self) -> Path | None:
        """The authority that a developer is told to trust, if it is one for development."""

    @property
    def obstacle(self) -> str:
        """What the first certificate waits for; empty where nothing is waited for."""

    async def begin(self, start: Start) -> ServerTls:
        """Begin to keep and follow the certificate; what to listen with, once there is one."""

    def drain(self) -> None:
        """Write nothing any more: the end is near."""


def build_certificates(
    settings: ServeSettings, metrics: Metrics, client: SecretCalls | None
) -> Certificates:
    """
    The certificates that *settings* name. *client* is there if a Secret is named.

    Raises:
        SettingsError: a certificate can't be read, made or used.
    """
    if settings.tls_cert is not None and settings.tls_key is not None:
        return _Files(settings, metrics, settings.tls_cert, settings.tls_key)
    if settings.cert_dir is None:
        raise SettingsError("where to keep a certificate must be given: --cert-dir DIR")
    if settings.cert_secret:
        if client is None:
            raise SettingsError("--cert-secret goes with --kubernetes")
        return _Secret(settings, metrics, client, settings.cert_dir)
    return _Development(settings, metrics, settings.cert_dir)


class _Files:
    ca = None
    obstacle = ""

    def __init__(
        self, settings: ServeSettings, metrics: Metrics, certificate: Path, key: Path
    ) -> None:
        self._file = None if settings.ca_bundle is None else BundleFile(settings.ca_bundle)
        self.bundle: AuthorityBundle = self._file or HeldBundle()
        ends = _Ends(metrics, self.bundle)
        self._tls = _load_tls(settings, metrics, certificate, key, ends)

    async def begin(self, start: Start) -> ServerTls:
        start("watch certificate", self._tls.watch)
        if self._file is not None:
            start("watch authorities", self._file.watch)
        return self._tls

    def drain(self) -> None:
        pass


class _Development:
    obstacle = ""

    def __init__(self, settings: ServeSettings, metrics: Metrics, directory: Path) -> None:
        self._directory = directory
        self._hosts = (*DEVELOPMENT_HOSTS, *own_hosts(settings.listen))
        paths = self._ensure()
        self.ca = paths.ca
        self.bundle = BundleFile(paths.ca)
        ends = _Ends(metrics, self.bundle)
        self._tls = _load_tls(settings, metrics, paths.certificate, paths.key, ends)

    async def begin(self, start: Start) -> ServerTls:
        start("watch certificate", self._tls.watch)
        start("watch authorities", self.bundle.watch)
        start("renew certificate", self._renew)
        return self._tls

    def drain(self) -> None:
        pass

    def _ensure(self) -> CertificatePaths:
        try:
            return ensure_development_certificate(self._directory, self._hosts)
        except (OSError, ValueError) as e:
            raise SettingsError(f"cannot make a certificate in {self._directory}: {_why(e)}") from e

    async def _renew(self) -> NoReturn:
        """Make the certificate anew when it is due; the watches take it over."""
        while True:
            await asyncio.sleep(_RENEWAL_CHECK_S)
            await asyncio.to_thread(self._ensure)


class _Secret:
    ca = None

    def __init__(
        self, settings: ServeSettings, metrics: Metrics, client: SecretCalls, directory: Path
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._directory = directory
        self._tls: ServerTls | None = None
        hosts = service_hosts(settings)
        try:
            check_hosts(hosts)
        except ValueError as e:
            raise SettingsError(f"no certificate can be made for {', '.join(hosts)}: {e}") from e
        deployment = OwnDeployment(
            client, namespace=settings.own_namespace, name=settings.deployment
        )
        self._keeper = SecretKeeper(
            client,
            namespace=settings.own_namespace,
            name=settings.cert_secret,
            hosts=hosts,
            lifetimes=Lifetimes(settings.cert_lifetime, settings.ca_lifetime),
            take=self._take,
            find_fault=self._find_fault,
            metrics=metrics,
            owner=deployment.reference,
        )
        self.bundle = self._keeper.bundle

    @property
    def obstacle(self) -> str:
        return self._keeper.obstacle

    async def begin(self, start: Start) -> ServerTls:
        start("keep certificate", self._keeper.run)
        await self._keeper.first()
        assert self._tls is not None
        # The pair is taken over when it is written; other files may change by themselves.
        start("watch certificate", self._tls.watch)
        return self._tls

    def drain(self) -> None:
        self._keeper.stop_writing()

    def _find_fault(self, certificate_pem: bytes, key_pem: bytes) -> str:
        path = self._directory / _TRIED_FILE
        self._write(path, key_pem + certificate_pem, mode=0o600)
        try:
            return pair_fault(path, path)
        finally:
            path.unlink(missing_ok=True)

    def _take(self, pair: ServedPair) -> None:
        """
        Serve *pair*. Python's TLS reads files only, so it goes through one.

        Raises:
            CertificateError: that can't be done, and what was served before is served.
        """
        path = self._directory / _PAIR_FILE
        self._write(path, pair.key_pem + pair.certificate_pem, mode=0o600)
        try:
            if self._tls is None:
                self._tls = _load_tls(
                    self._settings, self._metrics, path, path, _Ends(self._metrics)
                )
            else:
                # It was written just now: there is a change to take over.
                self._tls.reload()
        except SettingsError as e:
            raise CertificateError(str(e)) from e
        # For whoever wants to call this server by hand.
        self._write(self._directory / CA_CERTIFICATE, pair.bundle_pem, mode=0o644)
        self._metrics.authority_not_after.set(pair.authority_not_after.timestamp())

    def _write(self, path: Path, content: bytes, *, mode: int) -> None:
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, content, mode=mode)
        except OSError as e:
            raise CertificateError(f"cannot write into {self._directory}: {_why(e)}") from e


def service_hosts(settings: ServeSettings) -> tuple[str, ...]:
    """The names by which the API server, and whoever is on this machine, calls us."""
    name, namespace = settings.service_name, settings.own_namespace
    return (
        f"{name}.{namespace}.svc",
        name,
        f"{name}.{namespace}",
        f"{name}.{namespace}.svc.cluster.local",
        "localhost",
        *own_hosts(settings.listen),
    )


def own_hosts(listen: Address) -> tuple[str, ...]:
    """The host of *listen*, unless it means every address of the machine."""
    try:
        is_everywhere = ip_address(listen.host).is_unspecified
    except ValueError:
        is_everywhere = not listen.host
    return () if is_everywhere else (listen.host,)


class _Ends:
    """
    Shows when the certificate in use ends, and its authority if that is one of *bundle*. Without
    *bundle* whoever knows the authority shows that.
    """

    def __init__(self, metrics: Metrics, bundle: AuthorityBundle | None = None) -> None:
        self._metrics = metrics
        self._bundle = bundle
        self._chain: Sequence[x509.Certificate] = ()
        if bundle is not None:
            bundle.on_change(self._show_authority)

    def show(self, chain: Sequence[x509.Certificate]) -> None:
        """Show those of *chain*, which is in use from now on."""
        self._chain = chain
        self._metrics.certificate_not_after.set(chain[0].not_valid_after_utc.timestamp())
        self._show_authority()

    def _show_authority(self) -> None:
        if self._bundle is None or not self._chain:
            return
        # A bundle may have authorities that have signed nothing of ours.
        pem = self._bundle.pem
        found = None if pem is None else find_voucher(self._chain, read_certificates(pem))
        end = math.nan if found is None else found.not_valid_after_utc.timestamp()
        self._metrics.authority_not_after.set(end)


def _load_tls(
    settings: ServeSettings, metrics: Metrics, certificate: Path, key: Path, ends: _Ends
) -> ServerTls:
    return ServerTls(
        certificate,
        key,
        client_ca=settings.client_ca,
        on_change=ends.show,
        on_failure=metrics.certificate_failures.inc,
    )


def _why(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
