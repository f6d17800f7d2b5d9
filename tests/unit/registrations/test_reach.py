"""Where admission judges, by what a cluster has registered."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from webhook.errors import KubeError
from webhook.registrations.reach import Reach, fetch_reach

PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
JsonObject = dict[str, Any]


class Cluster:
    """Answers with configurations, each of the entries that are given."""

    def __init__(self, *configurations: list[JsonObject]) -> None:
        self._configurations = configurations

    async def request(self, method: str, path: str) -> bytes:
        assert (method, path) == ("GET", PATH)
        return orjson.dumps({"items": [{"webhooks": found} for found in self._configurations]})


def entry(name: str, selector: JsonObject | None) -> JsonObject:
    return {"name": f"{name}.gatewright.io", "namespaceSelector": selector}


def not_in(*names: str) -> JsonObject:
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(names)}
    return {"matchExpressions": [expression]}


async def reach_of(*entries: JsonObject) -> Reach:
    found = await fetch_reach(Cluster([entry("other", not_in("team-a"))], list(entries)))
    assert found is not None
    return found


async def test_namespaces_are_left_out_that_the_registration_leaves_out() -> None:
    left_out = not_in("kube-system", "gatewright")
    reach = await reach_of(entry("workloads", left_out), entry("pods", left_out))

    found = [reach.includes(name, {}) for name in ("kube-system", "gatewright", "team-a", "")]

    assert found == [False, False, True, True]


async def test_one_entry_that_asks_is_enough() -> None:
    reach = await reach_of(entry("workloads", not_in("team-a")), entry("pods", not_in("team-b")))

    assert reach.includes("team-a", {})


@pytest.mark.parametrize(
    ("selector", "labels", "included"),
    [
        pytest.param(None, {}, True, id="no-selector"),
        pytest.param({}, {}, True, id="empty"),
        pytest.param({"matchLabels": {"gate": "on"}}, {"gate": "on"}, True, id="label"),
        pytest.param({"matchLabels": {"gate": "on"}}, {}, False, id="no-label"),
        pytest.param(
            {"matchExpressions": [{"key": "gate-off", "operator": "DoesNotExist"}]},
            {"gate-off": ""},
            False,
            id="opted-out",
        ),
    ],
)
async def test_an_operators_own_selector_counts(
    selector: JsonObject | None, labels: dict[str, str], included: bool
) -> None:
    reach = await reach_of(entry("workloads", selector))

    assert reach.includes("team-a", labels) is included


async def test_without_a_registration_of_ours_nothing_is_known() -> None:
    # That of documents, which is asked about everywhere, says nothing about workloads.
    assert await fetch_reach(Cluster([entry("documents", None)])) is None


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"items": [{"webhooks": [{}]}]}'])
async def test_an_answer_that_is_none_is_an_error(answer: bytes) -> None:
    class Broken:
        async def request(self, method: str, path: str) -> bytes:
            return answer

    with pytest.raises(KubeError, match="no answer of an API server"):
        await fetch_reach(Broken())
