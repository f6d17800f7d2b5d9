"""Which Prometheus is asked, who it must be, and who we are to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from webhook.errors import PrometheusError, PrometheusFault, SettingsError
from webhook.model.addresses import objection_to_url
from webhook.model.files import load_bytes


@dataclass(frozen=True, slots=True)
class PrometheusCredentials:
    """
    A bearer token for the Prometheus at *url*, and for no other.

    *token_file* counts before *token*; it is read anew for each query, as it may be replaced.
    """

    url: str
    token: str = field(default="", repr=False)
    token_file: Path | None = None

    def read_token(self) -> str:
        """
        The token as it is now. A few hundred bytes, a few times a minute.

        Raises:
            PrometheusError: there is none in its file, or something that can't be one.
        """
        if self.token_file is None:
            return self.token
        try:
            token = load_bytes(self.token_file).decode("ascii").strip()
        except (OSError, ValueError):
            token = ""
        if not _is_token(token):
            problem = f"there is no token in {self.token_file}"
            raise PrometheusError(PrometheusFault.NO_TOKEN, problem)
        return token


def parse_base_url(url: str) -> URL:
    """
    The URL of a Prometheus, `http[s]://HOST[:PORT][/PATH]`.

    Raises:
        PrometheusError: it is none, or holds credentials, which are not for documents.
    """
    problem = objection_to_url(url)
    if problem:
        # The URL itself is not told: it may hold what is not for everybody's eyes.
        raise PrometheusError(PrometheusFault.BAD_URL, f"the URL of Prometheus {problem}")
    try:
        parsed = URL(url)
        # Decodes it, which not every name in Punycode can be.
        usable = bool(parsed.host)
    except ValueError:
        usable = False
    if not usable:
        text = "the URL of Prometheus names a host that there can't be"
        raise PrometheusError(PrometheusFault.BAD_URL, text)
    if parsed.is_default_port():
        parsed = parsed.with_port(None)
    return parsed.with_path(parsed.raw_path.rstrip("/") or "/", encoded=True)


def credentials_for(
    base: URL, credentials: PrometheusCredentials | None
) -> PrometheusCredentials | None:
    """
    *credentials* if they are for the URL *base*, else None.

    Raises:
        SettingsError: their URL is none, or there is no token in them.
    """
    if credentials is None:
        return None
    try:
        theirs = parse_base_url(credentials.url)
    except PrometheusError as error:
        raise SettingsError(f"credentials for Prometheus: {error.message}") from None
    if credentials.token_file is None and not _is_token(credentials.token):
        raise SettingsError("credentials for Prometheus: there is no token in them")
    return credentials if theirs == base else None


def _is_token(text: str) -> bool:
    """Whether *text* can stand in a header: nothing but visible ASCII."""
    return bool(text) and all("!" <= character <= "~" for character in text)


def load_tls(ca_file: Path | None, *, insecure: bool) -> ssl.SSLContext | bool:
    """
    Who is trusted: the authorities in *ca_file*, anybody, or (True, aiohttp's own) the system's.

    Raises:
        SettingsError: there are none in the file.
    """
    if ca_file is None and not insecure:
        return True
    try:
        tls = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        problem = error.strerror or "it holds no certificate"
        raise SettingsError(f"cannot read the authorities in {ca_file}: {problem}") from None
    if insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
