"""What the playground prints and asks for."""

from pathlib import Path

import pytest

from tests.controlplane.documents import Rule
from tests.controlplane.playground import (
    build_shell_line,
    is_supported_skew,
    rules_for_crds,
    server_command,
)


def test_every_served_kind_of_a_crd_is_sent_to_the_webhooks() -> None:
    crd = {
        "spec": {
            "group": "ray.io",
            "names": {"plural": "rayjobs", "kind": "RayJob"},
            "versions": [{"name": "v1"}, {"name": "v1alpha1"}],
        }
    }

    assert rules_for_crds([crd]) == (Rule("ray.io", ("v1", "v1alpha1"), ("rayjobs",)),)


@pytest.mark.parametrize(
    ("kubeconfig", "path_fits", "want"),
    [
        pytest.param("/p/c", True, "export KUBECONFIG=/p/c", id="kubectl-on-path"),
        pytest.param(
            "/p/c", False, 'export KUBECONFIG=/p/c PATH=/b:"$PATH"', id="kubectl-not-on-path"
        ),
        pytest.param("/my p/c", True, "export KUBECONFIG='/my p/c'", id="blank-in-a-path"),
    ],
)
def test_one_line_sets_up_a_shell(kubeconfig: str, path_fits: bool, want: str) -> None:
    assert build_shell_line(Path(kubeconfig), Path("/b/kubectl"), path_fits) == want


@pytest.mark.parametrize(
    ("client", "want"),
    [
        pytest.param("v1.36.3", True, id="same"),
        pytest.param("v1.35.0", True, id="one-older"),
        pytest.param("v1.37.1", True, id="one-newer"),
        pytest.param("v1.32.4-dispatcher", False, id="four-older"),
        pytest.param("v1.20.2", False, id="the-one-of-debian-12"),
        pytest.param("v2.36.3", False, id="another-major"),
        pytest.param("unknown", False, id="not-a-version"),
    ],
)
def test_a_kubectl_will_do_if_it_is_at_most_one_minor_version_away(client: str, want: bool) -> None:
    assert is_supported_skew(client, "v1.36.3") is want


def test_the_server_is_the_users_own_command() -> None:
    command = server_command(8443, 8080, Path("/p/certificates"))

    assert command[1:] == [
        *("-m", "webhook", "serve"),
        *("--policies", "examples/policies"),
        *("--listen", "127.0.0.1:8443"),
        *("--ops-listen", "127.0.0.1:8080"),
        *("--cert-dir", "/p/certificates"),
    ]
