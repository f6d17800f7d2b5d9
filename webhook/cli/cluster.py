"""A cluster that a command asks and leaves alone: flags that name it, and what is read of it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.cli.printing import complain
from webhook.errors import KubeError, SettingsError, StoreError
from webhook.model.kinds import GroupVersionKind
from webhook.model.settings import EngineSettings
from webhook.store.compile.inputs import SourceFile

if TYPE_CHECKING:
    from webhook.clients.kube import KubeClient
    from webhook.registrations.reach import Reach

# So many objects are read before they are judged, and held meanwhile.
_BATCH = 5

_DEFAULTS = EngineSettings()


def add_access_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The flags that say which cluster; more may go into their group."""
    group = parser.add_argument_group("the cluster")
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="how to reach it (default: KUBECONFIG, the Pod's ServiceAccount, ~/.kube/config)",
    )
    group.add_argument("--context", metavar="NAME", default="", help="a context of the kubeconfig")
    return group


def open_client(args: argparse.Namespace) -> KubeClient:
    """
    A client for the cluster of `add_access_flags`. A credential plugin of the kubeconfig is run.

    Raises:
        SettingsError: none is configured, or it can't be used.
    """
    # Takes longer to load than most commands run.
    from webhook.clients.kube import load_kube_client

    return load_kube_client(args.kubeconfig, context=args.context, may_run=True)


def add_cluster_flags(parser: argparse.ArgumentParser, *, with_running: bool = True) -> None:
    """
    The flags that say which cluster, and by which labels its namespaces belong to projects; those
    about what runs only *with_running*.
    """
    group = add_access_flags(parser)
    group.add_argument(
        "--project-label",
        metavar="LABEL",
        action="append",
        default=[],
        help="as the server's (default: " + ", ".join(_DEFAULTS.project_labels) + ")",
    )
    group.add_argument(
        "--department-label",
        metavar="LABEL",
        default=_DEFAULTS.department_label,
        help="as the server's (default: %(default)s)",
    )
    if not with_running:
        parser.set_defaults(running=False, excluded_namespaces=None)
        return
    group.add_argument(
        "--excluded-namespaces",
        metavar="NAMES",
        type=_names,
        help="with --running: namespaces to leave out beside kube-system, with commas between them"
        " (default: those that the registration in the cluster leaves out)",
    )


def add_kubernetes_flag(parser: argparse.ArgumentParser) -> None:
    """`--kubernetes`, of commands that otherwise ask no cluster."""
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="ask the cluster: its policies count unless --policies names others, and its"
        " namespaces",
    )


def add_namespace_flag(parser: argparse.ArgumentParser) -> None:
    """`--namespace`, of commands that judge files and what runs."""
    parser.add_argument(
        "--namespace",
        "-n",
        metavar="NS",
        help="default: the document's, else default; with --running, only what is there",
    )


def check_cluster_flags(args: argparse.Namespace, going_with: str) -> None:
    """
    Raises:
        SettingsError: there are flags about a cluster, and none of *going_with*, so that none is
            asked; or about what runs, and that is not looked at.
    """
    if not args.running and args.excluded_namespaces is not None:
        raise SettingsError("--excluded-namespaces goes with --running")
    if args.running or getattr(args, "kubernetes", False):
        return
    for flag, given in (("--kubeconfig", args.kubeconfig), ("--context", args.context)):
        if given:
            raise SettingsError(f"{flag} goes with {going_with}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))


def engine_settings(args: argparse.Namespace) -> EngineSettings:
    """The settings of the engine, as far as flags say them."""
    labels = tuple(args.project_label) or _DEFAULTS.project_labels
    return EngineSettings(
        cluster_name=args.cluster_name,
        project_labels=labels,
        department_label=args.department_label,
    )


@contextlib.contextmanager
def open_cluster(args: argparse.Namespace) -> Iterator[Cluster]:
    """
    The cluster that the flags name, for the time of one command.

    Raises:
        SettingsError: none is configured, or it can't be used.
    """
    client = open_client(args)
    with asyncio.Runner() as runner:
        try:
            yield Cluster(client, runner, excluded=args.excluded_namespaces)
        finally:
            runner.run(client.close())


class Cluster:
    """
    What is read of a cluster, one call after another. Every call blocks.

    `is_incomplete` is set when something could not be read that an answer depends on; what it
    was is told at once.
    """

    def __init__(
        self,
        client: KubeClient,
        runner: asyncio.Runner,
        *,
        excluded: Collection[str] | None = None,
    ) -> None:
        """*excluded* are the namespaces that are not judged; None: as what is registered says."""
        self._client = client
        self._runner = runner
        self._excluded = excluded
        self._labels: Mapping[str, Mapping[str, str]] = {}
        self.is_incomplete = False

    @property
    def namespace(self) -> str:
        """Where objects go that name no namespace."""
        return self._client.namespace or "default"

    def policies(self) -> list[SourceFile]:
        """
        The documents of the cluster.

        Raises:
            SettingsError: they can't be had.
        """
        from webhook.store.cluster_once import fetch_policies

        try:
            return self._runner.run(fetch_policies(self._client))
        except StoreError as error:
            raise SettingsError(str(error)) from error

    def around(self, namespaces: Collection[str]) -> SourceFile:
        """
        What is known of namespaces and queues; *namespaces* are those that matter.

        Raises:
            SettingsError: the API server is not there.
        """
        from webhook.store.cluster_once import fetch_around

        try:
            found = self._runner.run(fetch_around(self._client, namespaces))
        except KubeError as error:
            raise SettingsError(f"the cluster can't be asked: {error}") from error
        for what in found.unknown:
            complain(f"warning: {what}; projects and departments may be others than the server's")
        self._labels = found.surroundings.namespaces
        return SourceFile("cluster", surroundings=found.surroundings)

    def objects(
        self, kinds: Iterable[GroupVersionKind], namespace: str = ""
    ) -> Iterator[dict[str, Any]]:
        """
        The objects of *kinds* that admission judges, raw, a few at a time; of one *namespace* if it
        is given.

        Kinds that are not served have none. Those that can't be listed are told.
        """
        from webhook.clients.listing import ObjectLister, group_versions

        reach = self._reach(namespace)
        if not reach.includes(namespace, self._labels.get(namespace, {})):
            complain(f"warning: namespace {namespace} is left out: nothing is judged there")
            return
        lister = ObjectLister(self._client)
        for versions in group_versions(kinds):
            what = f"{versions[0].kind}.{versions[0].group}".rstrip(".")
            try:
                resource = self._runner.run(lister.find_preferred(versions))
                if resource is None:
                    continue
                what = f"{resource.plural}.{resource.kind.group}".rstrip(".")
                objects = lister.objects(resource, namespace)
                while batch := self._runner.run(_take(objects, _BATCH)):
                    yield from [each for each in batch if self._is_in(reach, each)]
            except KubeError as error:
                # A kind that went away meanwhile holds nothing.
                if error.status != HTTPStatus.NOT_FOUND:
                    self._miss(what, error)

    def _reach(self, namespace: str) -> Reach:
        """Where admission judges; *namespace* is the one that is asked about, if there is one."""
        from webhook.registrations.reach import ALWAYS_LEFT_OUT, Reach, fetch_reach

        if self._excluded is not None:
            return Reach.without((*ALWAYS_LEFT_OUT, *self._excluded))
        found = None
        try:
            found = self._runner.run(fetch_reach(self._client))
        except KubeError as error:
            # Who asks about a namespace of his own mostly has no right to that.
            if error.status != HTTPStatus.FORBIDDEN or not namespace:
                complain(
                    "warning: which namespaces are left out can't be read; name them with"
                    f" --excluded-namespaces: {error.message}"
                )
        return found or Reach.without(ALWAYS_LEFT_OUT)

    def _is_in(self, reach: Reach, document: Mapping[str, Any]) -> bool:
        metadata = document.get("metadata")
        found = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        namespace = str(found or "")
        return reach.includes(namespace, self._labels.get(namespace, {}))

    def _miss(self, what: str, error: KubeError) -> None:
        self.is_incomplete = True
        hint = ""
        if error.status == HTTPStatus.FORBIDDEN:
            hint = " (with --namespace, rights in that namespace are enough)"
        complain(f"{what} can't be listed, and are not judged: {error.message}{hint}")


async def _take(objects: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The next objects, *count* at most; none at the end."""
    found = []
    async for each in objects:
        found.append(each)
        if len(found) == count:
            break
    return found
