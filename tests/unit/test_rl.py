"""Manifests, checkpoints, exports, clips and tables of the policy commands, without a simulator."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl import checkpoint, manifest, returns, video
from flashnerd_ext.rl.command import _command, _take
from flashnerd_ext.rl.framing import frame_box, middle_block
from flashnerd_ext.rl.transfer import TransferConfig, check, summarise, table_text
from flashnerd_ext.runtime import seed_everything

TRAINED = {"physics": "flashnerd", "solver": "FlashNerdSolverCfg", "bundle": "cartpole", "bundle_hash": "ab" * 32}


def test_manifest_survives_an_update_and_refuses_what_it_is_not(tmp_path: Path) -> None:
    assert manifest.read_manifest(tmp_path) == {}
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"version": 1, "metadata": {"agent": "a"}}))
    manifest.update_manifest(tmp_path, TRAINED)
    assert manifest.read_manifest(tmp_path) == {"agent": "a", **TRAINED}
    for text in ("", "[]", '{"metadata": 3}', path.read_text()[:-9], "\x00"):
        path.write_text(text)
        with pytest.raises(FlashNerdError, match="not a run manifest"):
            manifest.read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [({}, ()), ({"physics": "newton_mjwarp"}, ("physics",)), ({"bundle_hash": "cd" * 32}, ("bundle_hash",))],
)
def test_play_warns_exactly_about_what_differs(change: dict[str, str], named: tuple[str, ...]) -> None:
    lines = manifest.compare(TRAINED, {**TRAINED, **change})
    assert lines[0].startswith("trained under: physics=flashnerd") and lines[1].startswith("playing under: physics=")
    warnings = [line for line in lines if line.startswith("warning")]
    assert len(warnings) == (1 if named else 0)
    for key in manifest.COMPARED:
        assert not warnings or (f"{key} {TRAINED[key]} ->" in warnings[0]) == (key in named)
    assert not warnings or ("type physics=flashnerd" in warnings[0]) == ("physics" in named)


def test_play_says_when_a_run_has_no_manifest() -> None:
    assert "cannot be compared" in manifest.compare({}, TRAINED)[-1]


def stored(path: Path, **extra: Any) -> Path:
    content = {"iter": 5, "infos": None, "actor_state_dict": {"mlp.0.weight": torch.ones(2, 3)}, **extra}
    checkpoint.write_checkpoint(path, content)
    return path


def test_checkpoint_code_never_runs_unless_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = tmp_path / "ran"

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    path = stored(tmp_path / "model_5.pt", infos={"x": Payload()})
    with pytest.raises(FlashNerdError, match="--trust_checkpoint"):
        checkpoint.read_checkpoint(path)
    assert not marker.exists()
    checkpoint.read_checkpoint(path, trust=True)
    assert marker.exists() and "can run code" in capsys.readouterr().out


def test_broken_checkpoints_get_one_sentence(tmp_path: Path) -> None:
    good = stored(tmp_path / "model_5.pt").read_bytes()
    path = tmp_path / "bad.pt"
    contents = [b"", b"no checkpoint", good[: len(good) // 2], good[:-20], b"PK\x03\x04" + bytes(60)]
    contents.append(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(FlashNerdError, match=r"cannot be read as a checkpoint|Git LFS pointer"):
            checkpoint.read_checkpoint(path)
    torch.save({"weights": torch.ones(1)}, path)
    with pytest.raises(FlashNerdError, match="not an rsl_rl checkpoint"):
        checkpoint.read_checkpoint(path)
    with pytest.raises(FlashNerdError, match="there is no checkpoint"):
        checkpoint.read_checkpoint(tmp_path / "none.pt")


def test_killed_save_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = stored(tmp_path / "model_5.pt")
    before = path.read_bytes()

    class Unsavable:
        def __reduce__(self) -> str:
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        checkpoint.write_checkpoint(path, {"x": Unsavable()})
    assert path.read_bytes() == before and [item.name for item in tmp_path.iterdir()] == ["model_5.pt"]


def test_random_state_goes_on_through_a_safe_file(tmp_path: Path) -> None:
    seed_everything(3)
    np.random.standard_normal()  # leaves a cached second value, which must travel too
    path = stored(tmp_path / "model_5.pt", infos={checkpoint.STATE_KEY: {"random": checkpoint.random_state()}})
    expected = (random.random(), np.random.standard_normal(3).tolist(), torch.rand(3).tolist())
    seed_everything(0)
    checkpoint.restore_random_state(checkpoint.read_checkpoint(path)["infos"][checkpoint.STATE_KEY]["random"])
    assert (random.random(), np.random.standard_normal(3).tolist(), torch.rand(3).tolist()) == expected


def test_weights_of_another_network_name_both_shapes_and_the_override() -> None:
    def network(*sizes: int, **extra: torch.Tensor) -> dict[str, torch.Tensor]:
        layers = enumerate(pairwise(sizes))
        return {f"mlp.{2 * i}.weight": torch.ones(b, a) for i, (a, b) in layers} | extra

    checkpoint.check_weights("actor", network(4, 8, 1), network(4, 8, 1), "f.pt")
    with pytest.raises(FlashNerdError, match=r"\(8, 4\) in the file and \(16, 4\).*agent\.actor\.hidden_dims=\[8\]"):
        checkpoint.check_weights("actor", network(4, 8, 1), network(4, 16, 1), "f.pt")
    normalised = {"obs_normalizer._mean": torch.ones(1, 4)}
    with pytest.raises(FlashNerdError, match=r"agent\.actor\.obs_normalization=True"):
        checkpoint.check_weights("actor", network(4, 8, 1, **normalised), network(4, 8, 1), "f.pt")
    with pytest.raises(FlashNerdError, match=r"agent\.actor\.obs_normalization=False"):
        checkpoint.check_weights("actor", network(4, 8, 1), network(4, 8, 1, **normalised), "f.pt")


@pytest.mark.parametrize("kind", ["jit", "onnx"])
def test_exports_reproduce_a_normalised_policy(tmp_path: Path, kind: str) -> None:
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    from flashnerd_ext.rl.export import check_export, export_policy, exported_actions

    torch.manual_seed(0)
    scale, shift = torch.tensor([3.0, 40.0, 0.1, 1.0]), torch.tensor([5.0, -20.0, 0.0, 1.0])

    def batch(count: int) -> Any:
        return TensorDict({"policy": torch.randn(count, 4) * scale + shift}, batch_size=[count])

    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0}
    policy = MLPModel(
        batch(8), {"actor": ["policy"]}, "actor", 2, [16, 16], obs_normalization=True, distribution_cfg=gaussian
    )
    for _ in range(20):
        policy.update_normalization(batch(64))
    policy.eval()
    target = export_policy(policy, tmp_path / f"policy.{'pt' if kind == 'jit' else 'onnx'}", kind)
    assert [item.name for item in tmp_path.iterdir()] == [target.name]  # one file, nothing beside it
    recorded = batch(33)
    with torch.inference_mode():
        torch.testing.assert_close(exported_actions(target, recorded["policy"]), policy(recorded), atol=1e-5, rtol=0)
        assert check_export(policy, target, recorded) <= 1e-5
        policy.train().update_normalization(batch(64) * 2)
        policy.eval()  # the file no longer holds this policy's statistics
        with pytest.raises(FlashNerdError, match="differs from the runner's actions"):
            check_export(policy, target, recorded)


def frames(count: int, moving: bool = True) -> list[np.ndarray]:
    found = []
    for index in range(count):
        frame = np.full((64, 96, 3), 80, dtype=np.uint8)
        start = 2 * index if moving else 0
        frame[20:40, start : start + 20] = (230, 120, 20)
        found.append(frame)
    return found


def test_clips_are_written_whole_and_judged(tmp_path: Path) -> None:
    import imageio.v2 as imageio

    facts = video.write_clip(tmp_path / "a.mp4", frames(20), fps=30)
    assert facts.problem() is None and [item.name for item in tmp_path.iterdir()] == ["a.mp4"]
    reader: Any = imageio.get_reader(tmp_path / "a.mp4")
    decoded = [frame for frame in reader]  # noqa: C416  (its length is unknown, and list() asks for it)
    assert len(decoded) == 20 and decoded[0].shape == (64, 96, 3)
    assert np.abs(decoded[0].astype(int) - decoded[-1]).mean() > 1
    assert video.clip_facts(Path("x"), frames(20, moving=False)).problem() == "its frames do not change"
    assert video.clip_facts(Path("x"), [np.zeros((8, 8, 3), np.uint8)] * 3).problem() == "it is black"


def test_missing_or_empty_clip_fails_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "written", [])
    video.report_clips(expected=False)
    with pytest.raises(FlashNerdError, match="no clip was written"):
        video.report_clips(expected=True)
    video.written.append(video.clip_facts(tmp_path / "x.mp4", frames(3, moving=False)))
    with pytest.raises(FlashNerdError, match="frames do not change"):
        video.report_clips(expected=True)


def test_no_opengl_is_answered_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "egl_problem", lambda: "libEGL.so.1 is missing")
    assert video.choose_source("auto") == "warp_camera"
    with pytest.raises(FlashNerdError, match="libegl1"):
        video.choose_source("newton_gl")
    with pytest.raises(FlashNerdError, match="one of auto, newton_gl, warp_camera"):
        video.choose_source("kit")
    config = SimpleNamespace(sim=SimpleNamespace(physics=SimpleNamespace()), video_recorders=[])
    monkeypatch.setattr(video, "install_writer", lambda: None)
    pytest.importorskip("isaaclab")
    with pytest.raises(FlashNerdError, match="need Newton physics"):
        video.prepare(config, SimpleNamespace(video=True, visualizer=None))


@pytest.mark.parametrize(("count", "expected"), [(1, [0]), (4, [0, 1, 2, 3]), (9, list(range(9))), (7, list(range(7)))])
def test_few_worlds_are_all_shown(count: int, expected: list[int]) -> None:
    assert middle_block(count) == expected


def test_middle_block_of_a_large_grid() -> None:
    assert middle_block(25) == [6, 7, 8, 11, 12, 13, 16, 17, 18]
    assert all(0 <= index < 4095 for index in middle_block(4095))


@pytest.mark.parametrize("direction", [(1.0, 0.0, 0.4), (-1.0, 2.0, 1.0), (3.0, -3.0, 0.1)])
def test_camera_sees_the_whole_box(direction: tuple[float, float, float]) -> None:
    low, high, fov, aspect = np.array([-5.0, -4.0, 1.0]), np.array([5.0, 4.0, 3.0]), 0.7, 16 / 9
    eye, target = (np.array(point) for point in frame_box(low, high, np.array(direction), fov, aspect))
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T - eye
    depth = corners @ forward
    across = np.abs(corners @ right / depth).max() / (np.tan(fov / 2) * aspect)
    above = np.abs(corners @ up / depth).max() / np.tan(fov / 2)
    assert depth.min() > 0 and max(across, above) <= 1.0 and max(across, above) > 0.9


def test_intervals_cover_training_seeds() -> None:
    rng = np.random.default_rng(0)
    alike = [rng.normal(5.0, 1.0, 400) for _ in range(3)]
    apart = [values + shift for values, shift in zip(alike, (-2.0, 0.0, 2.0), strict=True)]
    narrow, wide = (returns.interval(returns.resampled(group, 4000, rng)) for group in (alike, apart))
    assert narrow[0] < returns.mean(alike) < narrow[1] and narrow[1] - narrow[0] < 0.3
    assert wide[1] - wide[0] > 4 * (narrow[1] - narrow[0])
    # A long run of one seed must not outweigh the others.
    assert returns.mean([np.ones(1000), np.zeros(10)]) == 0.5


def test_share_kept_needs_a_positive_reference() -> None:
    rng = np.random.default_rng(0)
    found = returns.ratio([np.full(10, 4.9)], [np.full(10, 5.0)], 100, rng)
    assert found is not None and found[0] == pytest.approx(0.98) and found[1] == pytest.approx((0.98, 0.98))
    assert returns.ratio([np.ones(3)], [-np.ones(3)], 100, rng) is None


def worker_result(policies: dict[str, list[str]], level: dict[str, float]) -> dict[str, Any]:
    runs = [
        {"policy": path, "seed": 0, "mode": mode, "returns": [level[name]] * 4, "lengths": [300.0] * 4}
        | {"survived": [1.0] * 3 + [0.0]}
        for name, paths in policies.items()
        for path in paths
        for mode in ("mean", "sampled")
    ]
    return {"facts": {"physics": "x"}, "dt": 1 / 60, "max_steps": 300, "runs": runs}


def test_table_has_every_cell_and_the_share_kept() -> None:
    policies = {"flashnerd": ["a", "b"], "newton_mjwarp": ["c"]}
    config = TransferConfig(physics=["flashnerd", "newton_mjwarp"], reference="newton_mjwarp", bootstrap=200)
    results = {
        "flashnerd": worker_result(policies, {"flashnerd": 5.0, "newton_mjwarp": 4.0}),
        "newton_mjwarp": worker_result(policies, {"flashnerd": 4.9, "newton_mjwarp": 5.0}),
    }
    content = summarise(config, policies, results)
    assert len(content["cells"]) == 8 and json.loads(json.dumps(content, allow_nan=False)) == content
    cell = next(c for c in content["cells"] if (c["trained"], c["evaluated"]) == ("flashnerd", "newton_mjwarp"))
    assert cell["return"] == pytest.approx(4.9) and cell["survival"] == 0.75 and len(cell["policies"]) == 2
    assert content["kept"]["mean"]["flashnerd"]["ratio"] == pytest.approx(0.98)
    text = table_text(content)
    assert text.count("trained in") == 4 and "98.0%" in text


def test_table_picture(tmp_path: Path) -> None:
    from flashnerd_ext.rl.transfer_plot import draw

    policies = {"flashnerd": ["a"], "newton_mjwarp": ["c"]}
    config = TransferConfig(physics=list(policies), reference="newton_mjwarp", bootstrap=200)
    levels = {"flashnerd": -1.0, "newton_mjwarp": 5.0}
    content = summarise(config, policies, {name: worker_result(policies, levels) for name in policies})
    assert content["kept"]["mean"]["flashnerd"]["ratio"] == pytest.approx(-0.2)
    assert draw(content, tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"policies": None}, "no policies are given"),
        ({"policies": {}}, "no policies are given"),
        ({"policies": {"a": 3}}, r"policies\.a is 3"),
        ({"policies": {"a": []}}, r"policies\.a is \[\]"),
        ({"policies": {"a": "/nowhere.pt"}}, "there is no such file"),
        ({"num_envs": 0}, "num_envs is 0"),
        ({"episodes": -1}, "episodes is -1"),
        ({"seeds": []}, "seeds is empty"),
        ({"modes": ["best"]}, "modes is"),
        ({"bootstrap": 3}, "bootstrap is 3"),
        ({"reference": "physx"}, "reference is 'physx'"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    path = tmp_path / "model_5.pt"
    path.touch()
    with pytest.raises(FlashNerdError, match=match):
        check(TransferConfig(**{"policies": {"a": str(path)}, **change}))


def test_reference_is_the_analytical_physics(tmp_path: Path) -> None:
    path = tmp_path / "model_5.pt"
    path.touch()
    config = TransferConfig(policies={"newton_mjwarp": str(path), "flashnerd": [str(path)] * 2})
    assert check(config)["flashnerd"] == [str(path)] * 2
    assert config.reference == "newton_mjwarp" and config.physics == ["newton_mjwarp", "flashnerd"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--num_envs", "0"], "--num_envs is '0'"),
        (["--max_iterations=1.5"], "--max_iterations is '1.5'"),
        (["--num_envs"], "--num_envs needs a value"),
        (["--steps", "5"], "--steps belongs to play"),
        (["--rl_library", "skrl"], "this script runs rsl_rl"),
        (["--checkpoint", "/nowhere/model.pt"], "there is no checkpoint at /nowhere/model.pt"),
    ],
)
def test_wrong_words_are_refused_before_anything_loads(words: list[str], match: str) -> None:
    with pytest.raises(FlashNerdError, match=match):
        _command("train", words)


def test_last_value_of_an_option_counts() -> None:
    assert _take(["--a", "1", "x=2", "--a=3", "--ab", "4"], "--a") == (["x=2", "--ab", "4"], "3")
