"""What the commands that go on for ever share: signals, listeners, tasks, and the end of it all."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import web

from webhook.api.limits.connections import OPS_CONNECTIONS
from webhook.api.runner import GateRunner
from webhook.api.site import BoundedSite
from webhook.cli.stores import Start
from webhook.clients.lease import LeaderElector, LeaseCalls
from webhook.clients.owner import OwnDeployment
from webhook.errors import SettingsError
from webhook.settings import Address

log = logging.getLogger("gatewright.serve")

_T = TypeVar("_T")

# Longer than API servers keep an idle connection (90 s in Go), so that they close it and not we,
# while they may be sending. Also the time that a caller has for its request line and headers.
KEEPALIVE_S = 120.0

# For what is still running, being written or in a thread when the time for draining is over.
CLOSE_S = 1.0

# For all that is no connection to us: to the API server, to jq, policies, the other listener.
_OTHER_FILES = 400
_FEWEST = 16

_RESTART_AFTER_S = 5.0

# How many objects may be made before the collector looks for cycles. Decoding makes many objects
# and no cycles: a review of 2.6 MB in small parts took 0.48 s with Python's 700, 0.35 s with this,
# and of a round of the reconciler a tenth was looking.
_GC_THRESHOLD = 50_000


def end_threads(threads: ThreadPoolExecutor) -> None:
    """
    Wait for the threads, but not for long: else end the process without them.

    One may be reading a file that gives nothing, or a very large one. The interpreter would wait
    for it for ever, and whoever started us would think that we hang.
    """
    threads.shutdown(wait=False, cancel_futures=True)
    end = time.monotonic() + CLOSE_S
    left = [thread for thread in threading.enumerate() if not thread.daemon]
    left.remove(threading.current_thread())
    for thread in left:
        thread.join(max(0.0, end - time.monotonic()))
    held_up = [thread.name for thread in left if thread.is_alive()]
    if held_up:
        log.warning("work was left unfinished", extra={"threads": held_up})
    log.info("stopped")
    if held_up:
        logging.shutdown()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


async def unless(stop: asyncio.Event, work: Awaitable[_T]) -> _T | None:
    """What *work* gives, or None if *stop* comes first."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        stopping.cancel()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop of uvloop where it is installed: it answers about a tenth more requests."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def calm_collector() -> None:
    """Have the collector look seldom, and never again at what is here now, which stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 50)


def files_for_connections() -> int:
    """
    How many connections there may be for all the files that we may have.

    A process starts with fewer, since some programs can't do with more than 1,024 (systemd's
    `LimitNOFILE`). Ours can.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return 2**31 if soft == resource.RLIM_INFINITY else max(_FEWEST, soft - _OTHER_FILES)


def stop_event() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one acts as if nothing were there."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop


class Listener:
    """One address that is listened on."""

    def __init__(self, site: BoundedSite, address: Address) -> None:
        self.address = address
        self._site = site

    async def stop_accepting(self, timeout_s: float) -> None:
        """
        Close the address. Connections that are open stay so.

        Who has called already is let in, if his handshake takes no longer than *timeout_s*.
        """
        await self._site.stop()
        await self._site.wait_greeted(timeout_s)


async def listen(
    stack: contextlib.AsyncExitStack,
    app: web.Application,
    address: Address,
    tls: ssl.SSLContext | None = None,
    *,
    most: int = OPS_CONNECTIONS,
) -> Listener:
    """
    Answer with *app* at *address* until *stack* ends, over *most* connections at a time.

    Raises:
        SettingsError: nothing can listen there.
    """
    most_by_files = files_for_connections()
    if most_by_files < most:
        log.warning(
            "at most %d connections are held in place of %d: this process may open no more files",
            most_by_files,
            most,
            extra={"listen": str(address)},
        )
    runner = GateRunner(
        app,
        most_connections=min(most, most_by_files),
        access_log=None,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=CLOSE_S,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = BoundedSite(runner, address.host or None, address.port, tls=tls)
    try:
        await site.start()
    except OSError as e:
        # asyncio's own text repeats the address.
        reason = (e.strerror or str(e)).rpartition(": ")[2]
        raise SettingsError(f"cannot listen on {address}: {reason}") from e
    return Listener(site, Address(address.host, runner.addresses[0][1]))


@contextlib.asynccontextmanager
async def background() -> AsyncIterator[Start]:
    """Run tasks for the time of the block. One that ends is started again; a failure is logged."""
    tasks: list[asyncio.Task[None]] = []

    async def run(name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                log.exception("background task failed", extra={"task": name})
            await asyncio.sleep(_RESTART_AFTER_S)

    try:
        yield lambda name, work: tasks.append(asyncio.create_task(run(name, work), name=name))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def take_part(
    client: LeaseCalls,
    lead: Callable[[], Awaitable[None]],
    *,
    namespace: str,
    lease: str,
    identity: str,
    deployment: OwnDeployment,
    on_failure: Callable[[], None],
    purpose: str = "",
) -> None:
    """
    Run *lead* whenever the *lease* is ours. Made here, it goes when our *deployment* does. For
    *purpose* see `LeaderElector`.
    """
    elector = LeaderElector(
        client,
        namespace=namespace,
        name=lease,
        identity=identity,
        owner=await deployment.reference(),
        purpose=purpose,
        on_failure=on_failure,
    )
    await elector.run(lead)


def shown(address: Address) -> Address:
    """An address that can be called, where we listen on all of them."""
    return address._replace(host=address.host or "localhost")
