"""Suggestions for names that are unknown."""

from __future__ import annotations

import random

import pytest

from webhook.model.names import did_you_mean, nearest

FIELDS = ("image", "imagePullPolicy", "compute.gpuDevicesRequest", "tolerations", "labels")


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("imgae", "image", id="swapped"),
        pytest.param("IMAGE", "image", id="case"),
        pytest.param("imagepullpolicy", "imagePullPolicy", id="case-inside"),
        pytest.param("toleration", "tolerations", id="too-short"),
        pytest.param("compute.gpuDeviceRequest", "compute.gpuDevicesRequest", id="path"),
        pytest.param("gpuDevicesRequest", "compute.gpuDevicesRequest", id="path-without-its-head"),
        pytest.param("zzz", None, id="nothing-near"),
        pytest.param("", None, id="empty"),
        pytest.param("image" * 100_000, None, id="far-too-long"),
    ],
)
def test_the_nearest_name_is_found(name: str, want: str | None) -> None:
    assert nearest(name, FIELDS) == want


def test_the_order_of_known_names_does_not_matter() -> None:
    """Two names that are equally near must not make messages flicker."""
    known = ["cat", "car", "can", "cap"]
    wanted = nearest("caz", known)

    for seed in range(10):
        random.Random(seed).shuffle(known)
        assert nearest("caz", known) == wanted


@pytest.mark.parametrize(
    ("name", "known", "want"),
    [
        pytest.param("imgae", FIELDS, '; did you mean "image"?', id="near"),
        pytest.param("zzz", ["b", "a"], "; known: a, b", id="sorted-list"),
        pytest.param("zzz", ["a", "a"], "; known: a", id="each-once"),
        pytest.param("zzz", [], "", id="none-known"),
        pytest.param(
            "zzz",
            [f"n{i:02}" for i in range(13)],
            "; known: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 3 more",
            id="ten-and-a-count",
        ),
        pytest.param(
            "zzz",
            (f"n{i}" for i in range(10)),
            "; known: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9",
            id="just-ten-from-an-iterator",
        ),
    ],
)
def test_a_hint_ends_the_message(name: str, known: list[str], want: str) -> None:
    assert did_you_mean(name, known) == want
