"""Saving, finding and loading: what a folder must be, and that it is never half a bundle."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flashnerd_ext import load_bundle as public_load_bundle
from flashnerd_ext.bundle import folder as bundle_folder
from flashnerd_ext.bundle import store
from flashnerd_ext.bundle.card import parse_card
from flashnerd_ext.bundle.example import TINY, WALKER, example_bundle, example_model_and_card
from flashnerd_ext.bundle.store import load_bundle, save_bundle, seal_bundle, self_test, shipped
from flashnerd_ext.errors import FlashNerdError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1\nsize 12345\n"


def refusal(path: str | Path) -> str:
    with pytest.raises(FlashNerdError) as error:
        load_bundle(path)
    text = str(error.value)
    assert "\n" not in text and len(text) < 400
    return text


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("robot", ["cartpole", WALKER], ids=["cartpole", "walker"])
def test_a_loaded_bundle_is_the_saved_one(tmp_path: Path, model: str, robot: object) -> None:
    network, card = example_model_and_card(robot, model)  # type: ignore[arg-type]
    saved = save_bundle(tmp_path / "b", network, card)
    loaded = public_load_bundle(tmp_path / "b")
    assert loaded.hash == saved.hash and loaded.card == saved.card and loaded.card.robot == card.robot
    state = loaded.model.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    frames = torch.randn(2, 3, network.frame_size)
    assert torch.equal(network.eval().sequence(frames), loaded.model.sequence(frames))
    assert not loaded.model.training and not any(p.requires_grad for p in loaded.model.parameters())
    assert next(loaded.double().parameters()).dtype == torch.float64
    assert next(loaded.model.parameters()).dtype == torch.float32
    self_test(loaded)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["b"]


def test_the_hash_is_over_weights_and_canonical_card(tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b")
    weights = (tmp_path / "b" / "weights.safetensors").read_bytes()
    assert bundle.hash == hashlib.sha256(weights + bundle.card.canonical()).hexdigest()
    # Another layout of the same JSON is the same card.
    path = tmp_path / "b" / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert load_bundle(tmp_path / "b").hash == bundle.hash
    assert example_bundle(tmp_path / "c", seed=1).hash != bundle.hash


def test_an_unknown_name_gets_the_nearest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(store, "shipped_root", lambda: tmp_path)
    example_bundle(tmp_path / "cartpole")
    (tmp_path / "not-a-bundle").mkdir()
    assert shipped() == ["cartpole"]
    assert load_bundle("cartpole").card.name == "example-cartpole"
    assert "did you mean cartpole" in refusal("cartpol")
    assert "does not exist" in refusal(tmp_path / "cartpol")
    assert "does not exist" in refusal("../cartpole/../nowhere")


def test_a_shipped_name_wins_over_a_folder_and_a_path_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ship, here = tmp_path / "ship", tmp_path / "here"
    ship.mkdir()
    here.mkdir()
    shipped_hash = example_bundle(ship / "cartpole").hash
    own_hash = example_bundle(here / "cartpole", seed=1).hash
    monkeypatch.setattr(store, "shipped_root", lambda: ship)
    monkeypatch.chdir(here)
    assert load_bundle("cartpole").hash == shipped_hash
    assert load_bundle("./cartpole").hash == own_hash and load_bundle(Path("cartpole")).hash == own_hash


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000, "~nobody/x", "/proc/self/mem", "/dev/null", "."])
def test_odd_names_are_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refusal(name)


@pytest.mark.parametrize("file", ["card.json", "weights.safetensors"])
def test_a_git_lfs_pointer_is_called_one(tmp_path: Path, file: str) -> None:
    """F20."""
    example_bundle(tmp_path / "b")
    (tmp_path / "b" / file).write_bytes(LFS)
    text = refusal(tmp_path / "b")
    assert "this is a Git LFS pointer" in text and "git lfs pull" in text and file in text


@pytest.mark.parametrize("file", ["card.json", "weights.safetensors"])
@pytest.mark.parametrize("kind", ["missing", "empty", "folder", "link", "fifo", "unreadable", "huge"])
def test_what_is_not_a_plain_file_is_refused(tmp_path: Path, file: str, kind: str) -> None:
    example_bundle(tmp_path / "b")
    path = tmp_path / "b" / file
    kept = path.rename(tmp_path / file)
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(kept)
    elif kind == "fifo":
        os.mkfifo(path)  # must not wait for a writer
    elif kind == "unreadable":
        path.touch(mode=0)
        if os.access(path, os.R_OK):
            pytest.skip("root reads everything")
    elif kind == "huge":
        with path.open("wb") as stream:
            stream.truncate(bundle_folder.MAX_WEIGHTS_BYTES + 1)  # sparse
    assert file in refusal(tmp_path / "b")


def test_a_pickle_is_refused_and_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path / 'run'}",)

    example_bundle(tmp_path / "b")
    for name in ("card.json", "weights.safetensors"):
        (tmp_path / "b" / name).write_bytes(pickle.dumps(Trap()))
        refusal(tmp_path / "b")
    torch.save(Trap(), tmp_path / "b" / "weights.safetensors")
    refusal(tmp_path / "b")
    assert not (tmp_path / "run").exists()


def test_weights_of_another_bundle_and_truncated_ones_are_refused(tmp_path: Path) -> None:
    """F21."""
    example_bundle(tmp_path / "a")
    example_bundle(tmp_path / "b", seed=1)
    path = tmp_path / "a" / "weights.safetensors"
    path.write_bytes((tmp_path / "b" / "weights.safetensors").read_bytes())
    assert "SHA-256" in refusal(tmp_path / "a")
    path.write_bytes(path.read_bytes()[:-10])
    assert "truncated" in refusal(tmp_path / "a")


def test_an_edited_card_is_refused_until_it_is_sealed(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    before = example_bundle(folder)
    path = folder / "card.json"
    path.write_text(path.read_text().replace('"mass_tolerance": 0.01', '"mass_tolerance": 0.05'))
    text = refusal(folder)
    assert "digest" in text and "bundle.py seal" in text
    sealed = seal_bundle(folder)
    assert sealed.card.physical.mass_tolerance == 0.05 and sealed.hash != before.hash
    assert load_bundle(folder).hash == sealed.hash


def test_another_schema_version_names_both(tmp_path: Path) -> None:
    """F22."""
    example_bundle(tmp_path / "b")
    path = tmp_path / "b" / "card.json"
    original = path.read_text()
    path.write_text(original.replace('"schema_version": 2', '"schema_version": 0'))
    text = refusal(tmp_path / "b")
    assert "schema_version" in text and "is 0" in text and "reads 2" in text
    path.write_text(original.replace('"schema_version": 2', '"schema_version": 3'))
    assert "update flashnerd-ext" in refusal(tmp_path / "b")
    path.write_text(original.replace('"schema_version": 2', '"schema_version": true'))
    assert "schema_version" in refusal(tmp_path / "b")


@pytest.mark.parametrize(
    ("key", "stored", "other"), [("width", 8, 16), ("hidden", 8, 12), ("blocks", 2, 3), ("span", 3, 4)]
)
def test_a_layer_of_another_size_names_the_override_that_matches(
    tmp_path: Path, key: str, stored: int, other: int
) -> None:
    """F22: weights of one size, a configuration of another."""
    example_bundle(tmp_path / "b")
    path = tmp_path / "b" / "card.json"
    path.write_text(path.read_text().replace(f'"{key}": {stored}', f'"{key}": {other}'))
    with pytest.raises(FlashNerdError) as error:
        seal_bundle(tmp_path / "b")
    text = str(error.value)
    assert f"options.{key}={stored} (stored {stored}, current {other})" in text
    assert "stored F32[" in text or "absent" in text


def test_an_option_newer_than_the_bundle_is_named_with_its_default(tmp_path: Path) -> None:
    """F22."""
    folder = tmp_path / "b"
    example_bundle(folder, model="nerd")
    path = folder / "card.json"
    content = json.loads(path.read_text())
    del content["model"]["config"]["prior"]
    path.write_text(json.dumps(content))
    with pytest.raises(FlashNerdError, match=r'model\.config\.prior.*"prior": false'):
        seal_bundle(folder)


def test_saving_refuses_what_loading_would_refuse_and_leaves_nothing(tmp_path: Path) -> None:
    network, card = example_model_and_card()
    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    with pytest.raises(FlashNerdError, match="NaN"):
        save_bundle(tmp_path / "b", network, card)
    good, _ = example_model_and_card()
    _, other = example_model_and_card(WALKER)
    with pytest.raises(FlashNerdError):
        save_bundle(tmp_path / "b", good, other)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_keeps_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = example_bundle(tmp_path / "b")
    network, card = example_model_and_card(seed=1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FlashNerdError, match="No space left"):
        save_bundle(tmp_path / "b", network, card)
    monkeypatch.undo()
    assert load_bundle(tmp_path / "b").hash == before.hash
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("exchange", [True, False])
def test_saving_replaces_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool) -> None:
    if not exchange:  # a file system that cannot swap two folders

        class Library:
            renameat2 = None

        monkeypatch.setattr(bundle_folder.ctypes, "CDLL", lambda *_, **__: Library)
    example_bundle(tmp_path / "b")
    second = example_bundle(tmp_path / "b", seed=1)
    assert load_bundle(tmp_path / "b").hash == second.hash
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_a_folder_with_other_files_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FlashNerdError, match=r"notes\.txt"):
        example_bundle(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FlashNerdError, match="not a folder"):
        example_bundle(tmp_path / "file")
    with pytest.raises(FlashNerdError):
        example_bundle(tmp_path / "file" / "below")
    assert (tmp_path / "notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"


SAVER = """
import sys
from flashnerd_ext.bundle.example import example_model_and_card
from flashnerd_ext.bundle.store import save_bundle
model, card = example_model_and_card(seed=int(sys.argv[2]))
for _ in range(8):
    print(save_bundle(sys.argv[1], model, card).hash)
"""


def test_two_processes_may_save_the_same_name_while_others_read(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    allowed = {example_bundle(folder, seed=seed).hash for seed in (1, 2)}
    writers = [
        subprocess.Popen([sys.executable, "-c", SAVER, str(folder), str(seed)], stdout=subprocess.PIPE, text=True)
        for seed in (1, 2)
    ]
    while any(writer.poll() is None for writer in writers):
        assert load_bundle(folder).hash in allowed
    for writer in writers:
        output, _ = writer.communicate()
        assert writer.returncode == 0 and len(output.split()) == 8 and set(output.split()) <= allowed
    assert load_bundle(folder).hash in allowed
    assert [item.name for item in tmp_path.iterdir()] == ["b"]


def test_a_killed_save_leaves_the_old_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    allowed = {example_bundle(folder, seed=seed).hash for seed in (1, 2)}
    writer = subprocess.Popen([sys.executable, "-c", SAVER, str(folder), "1"], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    writer.kill()
    writer.wait()
    writer.stdout.close()
    assert load_bundle(folder).hash in allowed
    left = [item for item in tmp_path.iterdir() if item != folder]
    for item in left:
        os.utime(item, (0, 0))
    (tmp_path / ".b.1-keep").mkdir()  # of a save that still runs
    example_bundle(folder, seed=2)
    assert sorted(item.name for item in tmp_path.iterdir()) == [".b.1-keep", "b"]


def test_bundles_need_no_simulator() -> None:
    """Importing, loading and stepping a bundle must work where torch is all there is."""
    code = (
        "import sys, tempfile, numpy as np\n"
        "for name in ('warp', 'newton', 'mujoco', 'isaaclab', 'mujoco_warp', 'pxr'): sys.modules[name] = None\n"
        "from flashnerd_ext.bundle.example import example_bundle\n"
        "from flashnerd_ext import load_bundle, rollout\n"
        "from flashnerd_ext.bundle import check, facts, table\n"
        "folder = tempfile.mkdtemp() + '/b'\n"
        "example_bundle(folder)\n"
        "q, qd = rollout(load_bundle(folder), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((3, 2, 1)))\n"
        "print(q.shape)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.strip() == "(4, 2, 2)", result.stderr


def test_the_card_text_parses_to_the_card(tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b", WALKER)
    assert parse_card((tmp_path / "b" / "card.json").read_bytes()) == bundle.card
