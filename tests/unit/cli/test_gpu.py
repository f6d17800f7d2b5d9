"""`gatewright gpu simulate`: what a policy would do with given samples, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import gpu_documents
from tests.builders import JsonObject
from tests.gpu_scenarios import make_samples, make_scenario, make_scenario_pod, make_workload
from webhook.cli import main
from webhook.model.manifests import dump_yaml

GOLDEN = Path(__file__).parent / "gpu_simulate.json"


@pytest.fixture
def simulated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Runs the command on documents in a file: exit code, output and complaints."""

    def run(*documents: Any, flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
        file = tmp_path / "scenario.yaml"
        file.write_text(dump_yaml(list(documents)))
        code = main(["gpu", "simulate", str(file), *flags])
        captured = capsys.readouterr()
        return code, captured.out, captured.err.replace(f"{tmp_path}/", "")

    return run


def make_story() -> list[JsonObject]:
    """An inference server is busy for 20 minutes, and then idle. Its sidecar has no GPU."""
    scope = {"containers": ["inference"]}
    pod = make_scenario_pod(containers={"inference": {"gpu": "0.5"}, "sidecar": {}})
    samples = [
        make_samples(80, container="inference", to="20m"),
        make_samples(10, container="inference") | {"from": "21m"},
        make_samples(40, container="inference", signal="memory"),
    ]
    return [
        gpu_documents.make_policy(scope=scope),
        gpu_documents.make_strategy(
            enablement={
                "overrideScheduler": "kai",
                "gpu": {"requests": {"upsize": True, "downsize": True}},
            }
        ),
        make_scenario(*samples, workloads=[make_workload(pod)], duration="40m", step="10m"),
    ]


def test_the_json_is_what_it_was(simulated: Any, pytestconfig: pytest.Config) -> None:
    code, out, _ = simulated(*make_story(), flags=("-o", "json"))
    if pytestconfig.getoption("--update-golden"):
        GOLDEN.write_text(out, encoding="utf-8")

    assert code == 0
    assert json.loads(out) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_the_json_has_exactly_the_promised_shape(simulated: Any) -> None:
    _, out, _ = simulated(*make_story(), flags=("-o", "json"))
    first = json.loads(out)[0]
    reasons = first.pop("reasons")

    assert first == {
        "time": "2026-01-01T00:00:00Z",
        "namespace": "default",
        "kind": "Deployment",
        "name": "llm",
        "baseline": {"inference": "0.5"},
        "recommendation": {"inference": "0.96"},
        "total": "0.96",
        "driver": "compute",
        "change": "upsize",
        "signals": {
            "compute": {
                "usage": "0.8",
                "allocation": "0.5",
                "pod": "llm-0",
                "wants": "upsize",
                "candidate": "0.96",
                "missing": [],
            },
            "memory": {
                "usage": "0.2",
                "allocation": "0.5",
                "pod": "llm-0",
                "wants": "scaleBack",
                "candidate": "0.5",
                "missing": [],
            },
        },
    }
    assert all(isinstance(reason, str) for reason in reasons)


def test_the_text_tells_runs_of_the_same_outcome_once(simulated: Any) -> None:
    code, out, _ = simulated(*make_story())

    assert code == 0
    headings = [line.strip() for line in out.splitlines() if not line.startswith("      ")]
    assert headings == [
        "Deployment default/llm (GpuReactivePolicy default/gpu-reactive)",
        "2026-01-01T00:00:00Z",
        "upsize to 0.96 (inference 0.96), owed to compute",
        "2026-01-01T00:10:00Z to 2026-01-01T00:20:00Z (2 steps)",
        "kept at 0.96 (inference 0.96), owed to compute",
        "2026-01-01T00:30:00Z",
        "scale back to 0.5 (inference 0.5), owed to compute",
        "2026-01-01T00:40:00Z",
        "nothing is recommended",
    ]
    assert "compute: pod llm-0 uses 0.8 of 0.5 GPUs, above 120 % of it" in out


def test_a_reason_that_comes_up_within_a_run_is_shown_once_with_its_time(simulated: Any) -> None:
    pod = make_scenario_pod("llm-a", age="0m", containers={"main": {"gpu": "1"}})
    samples = [
        make_samples(None, pod="llm-a", signal=signal, to=None) | {"values": values}
        for signal, values in (("compute", [85, 86, 87] * 31), ("memory", [90] * 93))
    ]
    scenario = make_scenario(*samples, workloads=[make_workload(pod)], duration="30m")
    _, out, _ = simulated(gpu_documents.make_policy(), scenario)

    assert out.splitlines()[1:] == [
        "  2026-01-01T00:00:00Z to 2026-01-01T00:30:00Z (31 steps)",
        "    nothing is recommended",
        "      not measured, as it is younger than 15m: pod llm-a",
        "      from 2026-01-01T00:15:00Z: compute: pod llm-a uses 0.859 of 1 GPU, not above 120 % of it;"
        " pod llm-a uses 0.87 of 1 GPU, not below 80 % of it all the last 10m",
        "      from 2026-01-01T00:15:00Z: memory: pod llm-a uses 0.9 of 1 GPU, not above 120 % of it;"
        " pod llm-a uses 0.9 of 1 GPU, not below 80 % of it all the last 10m",
    ]


def test_a_picture_is_drawn_beside_the_answer(simulated: Any, tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    code, out, _ = simulated(*make_story(), flags=("-o", "json", "--plot", str(file)))

    assert (code, len(json.loads(out))) == (0, 5)
    texts = [element.text for element in ElementTree.parse(file).iter() if element.text]
    assert "upsize above 120 %" in texts


def test_a_picture_that_cannot_be_written_is_an_error(simulated: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "missing" / "plot.svg")
    code, out, err = simulated(*make_story(), flags=("--plot", file))

    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "gatewright: missing/plot.svg: No such file or directory"


def test_doubts_are_told_beside_the_answer(simulated: Any) -> None:
    policy, _, scenario = make_story()
    code, out, err = simulated(policy, scenario, flags=("-o", "json"))

    assert (code, len(json.loads(out))) == (0, 5)
    assert (
        "gatewright: warning: scenario.yaml#0: spec.automationStrategyRef.name:"
        " there is no AutomationStrategy default/gpu\n"
    ) in err


def test_every_problem_is_named_by_file_document_and_path(simulated: Any) -> None:
    policy, strategy, scenario = make_story()
    policy["spec"]["wieght"] = 3
    scenario["spec"]["samples"][1]["from"] = "soon"
    code, out, err = simulated(policy, strategy, scenario)

    assert (code, out) == (2, "")
    assert err.splitlines() == [
        'gatewright: scenario.yaml#0: spec.wieght: unknown field; did you mean "weight"?',
        "gatewright: scenario.yaml#2: spec.samples[1].from: 'soon' is no duration"
        " (such as 10m, 1h30m or 90s)",
    ]


def test_documents_may_stand_in_several_files_or_a_directory(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy, strategy, scenario = make_story()
    files = {"one.yaml": [scenario], "two.yaml": [policy, strategy]}
    for name, documents in files.items():
        (tmp_path / name).write_text(dump_yaml(documents))
    paths = [str(tmp_path / name) for name in files]

    assert main(["gpu", "simulate", *paths]) == 0
    out = capsys.readouterr().out
    assert main(["gpu", "simulate", str(tmp_path)]) == 0
    assert capsys.readouterr().out == out
    assert "upsize to 0.96 (inference 0.96), owed to compute" in out


def test_a_policy_that_only_recommends_can_be_tried_as_one_that_acts(simulated: Any) -> None:
    policy, *others = make_story()
    policy["metadata"]["annotations"] = {"gatewright.io/mode": "Recommend"}

    shown = simulated(policy, *others)
    tried = simulated(policy, *others, flags=("--enforce",))
    assert "the policy only recommends" in shown[1]
    assert tried == simulated(*make_story())


@pytest.mark.parametrize("value", [".nan", ".inf", "-.Inf", "NaN", "+Inf"])
def test_a_sample_that_is_no_number_is_none_however_it_is_written(
    value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "scenario.yaml"
    text = dump_yaml([gpu_documents.make_policy(), make_scenario(make_samples(777))])
    file.write_text(text.replace("777", value))

    assert main(["gpu", "simulate", str(file), "-o", "json"]) == 0
    signals = [step["signals"]["compute"] for step in json.loads(capsys.readouterr().out)]
    assert {(signal["usage"], *signal["missing"]) for signal in signals} == {(None, "llm-0")}


def test_a_file_that_is_not_there_is_unusable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "simulate", "missing.yaml"]) == 2
    assert capsys.readouterr().err == (
        "gatewright: missing.yaml: cannot be read: No such file or directory\n"
    )


def test_names_in_the_text_move_no_cursor(simulated: Any) -> None:
    scenario = make_scenario(workloads=[make_workload(name="llm\x1b[2J")])
    code, out, err = simulated(gpu_documents.make_policy(), scenario)

    assert code == 0
    assert "\x1b" not in out + err
