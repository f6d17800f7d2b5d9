"""What the playground prints and asks for."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.documents import Rule
from tests.controlplane.playground import (
    PolicyNews,
    build_shell_line,
    describe_policy_event,
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
    ("kubeconfig", "directories", "want"),
    [
        pytest.param("/p/c", ["/v/bin"], 'export KUBECONFIG=/p/c PATH=/v/bin:"$PATH"', id="one"),
        pytest.param(
            "/p/c", ["/v/bin", "/b"], 'export KUBECONFIG=/p/c PATH=/v/bin:/b:"$PATH"', id="two"
        ),
        pytest.param(
            "/my p/c",
            ["/my v/bin"],
            """export KUBECONFIG='/my p/c' PATH='/my v/bin':"$PATH\"""",
            id="blank-in-a-path",
        ),
    ],
)
def test_one_line_sets_up_a_shell(kubeconfig: str, directories: list[str], want: str) -> None:
    assert build_shell_line(Path(kubeconfig), *map(Path, directories)) == want


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


def make_line(**fields: Any) -> str:
    """One line of the server's log."""
    return json.dumps({"time": "2026-01-31T09:30:00.000Z", "logger": "gatewright.serve", **fields})


LOADED = make_line(message="policies loaded", level="info", revision="0f1e2d3c4b5a", documents=7)
PROBLEM = make_line(
    message='document: unknown rule; did you mean "max"?',
    level="error",
    document="services.yaml#0",
    path="spec.rules[0].enforcements[0].maximum",
)
UNREADABLE = make_line(
    message="document: line 3: a \x1b[2J key is there twice",
    level="error",
    document="services.yaml",
    path="",
)
WARNING = make_line(
    message="document: no mapping for ray.io/v1/RayJob",
    level="warning",
    document="ray.yaml#0",
    path="spec.workloadType",
)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param(
            LOADED, "policies loaded, revision 0f1e2d3c4b5a: 7 documents in force", id="loaded"
        ),
        pytest.param(
            PROBLEM,
            "problem in services.yaml#0: spec.rules[0].enforcements[0].maximum: unknown rule; did"
            ' you mean "max"? The last good version, if any, stays in force.',
            id="problem",
        ),
        pytest.param(
            UNREADABLE,
            "problem in services.yaml: line 3: a  [2J key is there twice."
            " The last good version, if any, stays in force.",
            id="problem-of-a-whole-file-that-would-clear-the-screen",
        ),
        pytest.param(
            WARNING,
            "warning about ray.yaml#0: spec.workloadType: no mapping for ray.io/v1/RayJob",
            id="warning",
        ),
    ],
)
def test_what_happens_to_policies_is_told_in_one_line(line: str, want: str) -> None:
    assert describe_policy_event(line) == want


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(make_line(message="ready", listen="127.0.0.1:8443"), id="another-message"),
        pytest.param(
            make_line(logger="gatewright.decision", message="policies loaded"), id="another-logger"
        ),
        pytest.param("admission: https://127.0.0.1:8443/mutate", id="no-json"),
        pytest.param('{"half', id="half-a-line"),
        pytest.param("", id="nothing"),
    ],
)
def test_the_rest_of_the_log_is_not_repeated_on_the_terminal(line: str) -> None:
    assert describe_policy_event(line) is None


def test_each_line_of_the_log_is_told_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "gatewright.log"
    news = PolicyNews(log)
    told = []
    for text in (f"{LOADED}\n{PROBLEM[:20]}", f"{PROBLEM[20:]}\n", ""):
        with log.open("a") as file:
            file.write(text)
        told.append(news.read())

    assert told == [
        [describe_policy_event(LOADED)],
        [describe_policy_event(PROBLEM)],
        [],
    ]
