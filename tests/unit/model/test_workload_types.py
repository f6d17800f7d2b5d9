"""How kinds of workloads are named in `scope.workloadTypes`: one name each."""

from __future__ import annotations

import pytest

from webhook.model.rightsizing.workload_types import SHORT_TYPES, is_short, read_type, type_of


@pytest.mark.parametrize(
    ("group", "kind", "want"),
    [
        pytest.param("apps", "Deployment", "Deployment", id="one-of-the-nine"),
        pytest.param("kubeflow.org", "PyTorchJob", "PyTorchJob.kubeflow.org", id="another"),
        pytest.param("batch.volcano.sh", "Job", "Job.batch.volcano.sh", id="same-name-elsewhere"),
    ],
)
def test_a_kind_has_one_name(group: str, kind: str, want: str) -> None:
    assert type_of(group, kind) == want
    assert read_type(want) == want
    assert read_type(f"{kind}.{group}") == want


@pytest.mark.parametrize("name", SHORT_TYPES)
def test_the_nine_are_named_by_their_kind_alone(name: str) -> None:
    assert is_short(name)
    assert read_type(name) == name


@pytest.mark.parametrize(
    "name",
    ["PyTorchJob", "Pod", "", "deployment", "pytorchjob.kubeflow.org", "A.", "A..b", "A.b/c", "A.B",
     "A.b\n", f"A.{'b' * 64}", f"A.{'b.' * 200}c"],
)  # fmt: skip
def test_what_is_no_name_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be one of Deployment, .*PyTorchJob\.kubeflow\.org"):
        read_type(name)
