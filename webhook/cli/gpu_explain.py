"""`gatewright gpu explain`: what is recommended for a workload of a cluster, and why."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from urllib.parse import quote

import msgspec

from webhook.admission.texts import clean
from webhook.cli.cluster import open_client
from webhook.cli.gpu_cluster import WorkloadName, parse_workload
from webhook.cli.printing import complain
from webhook.clients.kube import KubeClient
from webhook.clients.listing import ObjectLister
from webhook.errors import KubeError, SettingsError
from webhook.model.rightsizing.recommendations import API_VERSION, PLURAL, GpuRecommendation
from webhook.reactive.explain import lines_of, to_json
from webhook.reactive.observation.documents import decode_recommendation

_MAX_CHARS = 1000


def run(args: argparse.Namespace) -> int:
    wanted = parse_workload(args.workload)
    found = asyncio.run(_find(open_client(args), wanted))
    if args.output == "json":
        sys.stdout.write(json.dumps([to_json(each) for each in found], indent=2) + "\n")
    for each in found if args.output == "text" else ():
        for line in lines_of(each):
            indent = line[: len(line) - len(line.lstrip())]
            sys.stdout.write(f"{indent}{clean(line.lstrip(), _MAX_CHARS)}\n")
    if not found:
        complain(
            f"nothing is known of {clean(str(wanted))}: no policy concerns it, or its pods have no"
            " GPU"
        )
        return 1
    return 0


async def _find(client: KubeClient, wanted: WorkloadName) -> list[GpuRecommendation]:
    try:
        return [
            each
            for each in await fetch_recommendations(client, wanted.namespace)
            if each.workload.name == wanted.name
            and wanted.may_be(each.workload.kind, each.workload.api_version.rpartition("/")[0])
        ]
    except KubeError as error:
        raise SettingsError(f"the cluster can't be asked: {error}") from error
    finally:
        await client.close()


async def fetch_recommendations(client: KubeClient, namespace: str) -> list[GpuRecommendation]:
    """
    All that can be read in *namespace*, by name.

    Raises:
        KubeError: they can't be had.
    """
    path = f"/apis/{API_VERSION}/namespaces/{quote(namespace, safe='')}/{PLURAL}"
    found = []
    async for raw in ObjectLister(client).raw_objects(path):
        try:
            stored = decode_recommendation(raw)
        except msgspec.DecodeError:
            continue
        if stored.recommendation is not None:
            found.append(stored.recommendation)
    return sorted(found, key=lambda each: each.name)
