"""The authorities that callers of the server are told to trust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class AuthorityBundle(Protocol):
    """What a registration's `caBundle` must say, now and after each change."""

    @property
    def pem(self) -> bytes | None:
        """
        Certificates of all authorities that sign for the server, or soon will, in PEM.

        None: there is none to name, and callers go by the authorities of their system. Never None
        for a while only: whoever has a bundle to keep knows it before the server listens.
        """

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have *callback* called, in the event loop's thread, after `pem` has changed."""


class HeldBundle:
    """A bundle that is put here, by whoever keeps it."""

    def __init__(self, pem: bytes | None = None) -> None:
        self._pem = pem
        self._callbacks: list[Callable[[], None]] = []

    @property
    def pem(self) -> bytes | None:
        return self._pem

    def on_change(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def replace(self, pem: bytes | None) -> None:
        """Hold *pem* from now on. Those who asked are called if it is another one."""
        if pem == self._pem:
            return
        self._pem = pem
        for callback in self._callbacks:
            callback()
