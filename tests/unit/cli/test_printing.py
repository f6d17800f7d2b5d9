"""Nothing that others wrote reaches a terminal as more than text."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import POD, POLICY_API, JsonObject, make_gvk_policy, make_pod, make_rule
from webhook.cli import main
from webhook.cli.printing import RED, RESET, write_lines
from webhook.model.manifests import dump_yaml, load_documents

# Clears the screen, sets its title, is C1's short form of the same, and turns the line around.
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
_HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")

POLICY = make_gvk_policy(
    make_rule("labels", "metadata", {"required": {"key": "team"}}), kind=POD, name="labels"
)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "policy.yaml").write_text(dump_yaml([POLICY]))
    return directory


def hostile_pod() -> JsonObject:
    """With each part that is shown."""
    pod = make_pod()
    pod["metadata"] = {"name": f"a{ESCAPES}", "namespace": f"n{ESCAPES}", "labels": {ESCAPES: "x"}}
    pod["spec"]["containers"][0]["image"] = f"image{ESCAPES}"
    return pod


def test_names_and_values_of_objects_are_text(
    tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"pods{ESCAPES}.json"
    file.write_text(json.dumps(hostile_pod()))

    for output in ("text", "json", "yaml", "patch"):
        main(["review", "--policies", str(policies), "-o", output, str(file)])
        shown = capsys.readouterr()
        assert shown.out
        assert not _HOSTILE.search(shown.out + shown.err)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_is_the_same_data(
    tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(hostile_pod()))

    main(["review", "--policies", str(policies), "-o", output, str(file)])

    (document,) = load_documents(capsys.readouterr().out.encode(), "out")
    (found,) = document.value
    assert found["object"] == hostile_pod()
    assert found["name"] == f"a{ESCAPES}"


def test_what_is_wrong_with_a_policy_is_told_in_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule: JsonObject = {"field": f"la{ESCAPES}bels", f"enf{ESCAPES}": [], "specSelector": ESCAPES}
    wrong = {
        **POLICY,
        "metadata": {"name": f"x{ESCAPES}"},
        "spec": {**POLICY["spec"], "rules": [rule], f"un{ESCAPES}known": 1},
    }
    other = {"apiVersion": POLICY_API, "kind": f"Gvk{ESCAPES}", "metadata": {"name": "y"}}
    (tmp_path / f"policy{ESCAPES}.yaml").write_text(dump_yaml([wrong, other]))
    pod = tmp_path / "pod.yml"
    pod.write_text(dump_yaml([make_pod()]))

    for command in (
        ["lint", str(tmp_path)],
        ["review", "--policies", str(tmp_path), str(pod)],
        ["explain", "--policies", str(tmp_path), "--workload-type", f"v1/{ESCAPES}"],
        ["diff", str(tmp_path), str(tmp_path), str(pod)],
    ):
        main(command)
        shown = capsys.readouterr()
        assert shown.out + shown.err
        assert not _HOSTILE.search(shown.out + shown.err)


@pytest.mark.parametrize(
    "name", [f"a{ESCAPES}.yaml", b"\xff.yaml".decode(errors="surrogateescape")], ids=ascii
)
def test_names_of_files_are_text_and_written_whatever_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_text("kind: [")

    assert main(["review", str(tmp_path / name)]) == 2
    shown = capsys.readouterr()
    assert shown.err
    assert not _HOSTILE.search(shown.out + shown.err)


def test_a_name_that_is_taken_for_a_flag_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["review", f"--{ESCAPES}"])

    shown = capsys.readouterr().err
    assert "unrecognized arguments" in shown
    assert not _HOSTILE.search(shown)


@contextmanager
def refusing_api_server() -> Iterator[str]:
    """The URL of one that refuses everything, with a message of somebody's choice."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            message = f"{ESCAPES}no\ngatewright: 5 reviewed, all allowed"
            status = {"kind": "Status", "message": message, "reason": "Forbidden", "code": 403}
            body = json.dumps(status).encode()
            self.send_response(403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Nothing: the output is what is looked at."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_what_an_api_server_says_is_text_and_no_message_of_ours(
    tmp_path: Path, policies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with refusing_api_server() as url:
        config = tmp_path / "config"
        content = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": url}}],
        }
        config.write_text(yaml.safe_dump(content))
        code = main(
            ["review", "--running", "--policies", str(policies), "--kubeconfig", str(config)]
        )

    shown = capsys.readouterr()
    assert code == 2
    assert "owned" in shown.err
    assert not _HOSTILE.search(shown.out + shown.err)
    assert not re.search("^gatewright: 5 reviewed", shown.err, re.MULTILINE)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_colours_are_ours_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_terminal: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)

    write_lines([f"{RED}denied{RESET}, by {ESCAPES}"])

    shown = capsys.readouterr().out
    colours = (RED, RESET) if is_terminal else ("", "")
    assert shown.startswith(f"{colours[0]}denied{colours[1]}, by \\u001b[2J")
    assert not _HOSTILE.search(shown.replace(RED, "").replace(RESET, ""))
