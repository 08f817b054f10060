"""scripts/benchmark.py: what it writes, and what it refuses."""

from __future__ import annotations

import json
import sys

import pytest

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.evaluation import env_throughput


@pytest.fixture(scope="module")
def script(load_script):
    with load_script("benchmark.py") as module:
        yield module


def run(script, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["benchmark.py", *words])
    with pytest.raises(SystemExit) as end:
        cli_main(script.main)
    return end.value.code


def test_models_alone(script, tmp_path, monkeypatch, capsys):
    code = run(
        script,
        monkeypatch,
        "what=model",
        "batch=[2,3]",
        "dtype=[float32]",
        "compiled=[false]",
        "rounds=1",
        "seconds=0",
        f"json={tmp_path}/m.json",
    )
    assert code == 0
    content = json.loads((tmp_path / "m.json").read_text())
    assert {row["model"] for row in content["rows"]} == set(content["models"])
    assert {"batch", "dtype", "model", "compiled", "steps_per_s"} <= set(content["rows"][0])
    assert set(content["ratio"]) == {"2", "3"}
    assert len(content["equal_size_ratio"]) == 2
    assert all(set(found) == {"2", "3"} for found in content["equal_size_ratio"].values())
    assert content["models"]["nerd"]["flops_per_step"] > 100 * content["models"]["flashnerd"]["flops_per_step"]
    assert {"cores", "threads", "load_average"} <= set(content["machine"])
    shown = capsys.readouterr().out
    assert "FlashNeRD / Optimized NeRD" in shown


def test_the_size_of_the_bundle_is_measured(script, tmp_path, monkeypatch):
    from flashnerd_ext.bundle.example import TINY, example_bundle

    example_bundle(tmp_path / "tiny")
    config = script.BenchmarkConfig(bundle=str(tmp_path / "tiny"))
    assert script.bundle_config(config)["flashnerd"].items() >= TINY["flashnerd"].items()
    config.robot = "franka"
    with pytest.raises(FlashNerdError, match="of robot 'cartpole'"):
        script.bundle_config(config)


def test_environments(script, tmp_path, monkeypatch, capsys):
    asked = []

    def measure(commands, num_envs, rounds, seconds, **options):
        asked.append((commands, num_envs))
        result = []
        for place, name in enumerate(commands, start=1):
            one = env_throughput.EnvResult(name, num_envs, {"manager": "M", "decimation": 2, "sim_dt": 0.01})
            one.wall, one.inside, one.steps = [0.1 * place], [0.05 * place], 3
            result.append(one)
        return result

    monkeypatch.setattr(env_throughput, "measure", measure)
    code = run(script, monkeypatch, "what=env", "num_envs=[4,8]", "bundle=mine", f"json={tmp_path}/e.json")
    assert code == 0
    content = json.loads((tmp_path / "e.json").read_text())
    assert [row["num_envs"] for row in content["rows"]] == [4, 4, 8, 8]
    assert {"physics", "num_envs", "env_steps_per_s", "physics_s_per_step"} <= set(content["rows"][0])
    assert content["ratio"]["8"] == {"env": pytest.approx(2.0), "physics": pytest.approx(2.0)}
    flash, analytical = asked[0][0]["flashnerd"], asked[0][0]["newton_mjwarp"]
    assert "--bundle=mine" in flash
    assert not any("bundle" in word for word in analytical)
    assert "2.00 x newton_mjwarp" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["what=speed"], "what is 'speed'"),
        (["batches=[16]"], "did you mean batch"),
        (["batch=[0]"], "batch is [0]"),
        (["batch=[]"], "batch is []"),
        (["batch=[2,2]"], "different"),
        (["batch=[a]"], "batch"),
        (["rounds=0"], "rounds is 0"),
        (["seconds=-1"], "seconds is -1"),
        (["minutes=-1"], "minutes is -1"),
        (["threads=-1"], "threads is -1"),
        (["dtype=[float16]"], "float16"),
        (["models=[flashnrd]"], "did you mean flashnerd"),
        (["robot=carpole"], "did you mean cartpole"),
        (["device=abacus"], "device is 'abacus'"),
        (["what=env", "num_envs=[-1]"], "num_envs is [-1]"),
        (["what=soak", "steps=1"], "steps is 1"),
        (["what=env", "physics=[nerd_optimized]"], "which needs a bundle: type bundles={nerd_optimized:PATH}"),
        (["what=env", "bundles={nerd:x}"], "bundles names 'nerd', which is not in physics"),
        (["nonsense"], "key=value"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_writes_nothing(script, tmp_path, monkeypatch, capsys, words, text):
    assert run(script, monkeypatch, *words, f"json={tmp_path}/x.json") == 2
    shown = capsys.readouterr().err
    assert text in shown
    assert len(shown.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_fails_writes_nothing(script, tmp_path, monkeypatch, capsys):
    def measure(*args, **options):
        raise FlashNerdError("the environment with physics=flashnerd failed: no bundle")

    monkeypatch.setattr(env_throughput, "measure", measure)
    assert run(script, monkeypatch, "what=env", f"json={tmp_path}/x.json") == 2
    assert "no bundle" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_cannot_be_written_is_refused_before_the_work(script, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    for path, text in ((tmp_path, "which is a folder"), (tmp_path / "file" / "x.json", "is a file, not a folder")):
        assert run(script, monkeypatch, f"json={path}") == 2
        assert text in capsys.readouterr().err
    from flashnerd_ext.evaluation.outputs import writing

    with pytest.raises(FlashNerdError, match="cannot be written"), writing():
        (tmp_path / "gone" / "x").write_text("")
