"""A bundle of authorities in a file that somebody else keeps, cert-manager's `ca.crt` say."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NoReturn

from webhook.errors import SettingsError
from webhook.model.files import load_bytes
from webhook.tls.bundle import HeldBundle
from webhook.tls.held import read_certificates

log = logging.getLogger("gatewright.tls")

_POLL_S = 2.0


class BundleFile(HeldBundle):
    """
    What *path* holds, followed by `watch`. One that can't be used is said once, and what it held
    before stays.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            SettingsError: there are no certificates in *path*.
        """
        self._path = path
        self._refused = ""
        super().__init__(_read(path))

    async def watch(self, interval_s: float = _POLL_S) -> NoReturn:
        """Look for changes until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            self.check()

    def check(self) -> None:
        """Take over what is in the file now."""
        try:
            pem = _read(self._path)
        except SettingsError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                log.error("changed authorities are not usable, the old ones stay: %s", error)
            return
        self._refused = ""
        if pem != self.pem:
            log.info("changed authorities are in use", extra={"file": str(self._path)})
            self.replace(pem)


def _read(path: Path) -> bytes:
    """
    Raises:
        SettingsError: it can't be read, or there are no certificates in it.
    """
    try:
        pem = load_bytes(path)
        read_certificates(pem)
    except OSError as error:
        raise SettingsError(f"{path} is not readable: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingsError(f"{path} {error}") from error
    return pem
