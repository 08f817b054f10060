"""Model-only throughput: what is counted, not how long it takes."""

from __future__ import annotations

import pytest
import torch

from flashnerd_ext.evaluation import throughput
from flashnerd_ext.evaluation.flops import count_flops_per_step
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.registry import build_model

CART = StateLayout(joint_names=("cart", "pole"), joint_kinds=("prismatic", "continuous"), actuated=("cart",))
SMALL_FLASH = {"width": 16, "heads": 2, "hidden": 32}
SMALL_NERD = {"width": 16, "heads": 2, "layers": 2, "window": 4}


def small():
    return [
        throughput.Variant("flashnerd", "flashnerd", SMALL_FLASH),
        throughput.Variant("nerd", "nerd", SMALL_NERD),
        throughput.Variant("nerd_optimized", "nerd_optimized", SMALL_NERD),
    ]


def test_flops_of_flashnerd_are_those_of_its_matrices():
    model = build_model("flashnerd", CART, SMALL_FLASH)
    f, o, d, h = model.frame_size, model.out_size, 16, 32
    blocks = 2 * (d * (3 * d + 2 * h) + (d + h) * d)
    assert count_flops_per_step(model) == 2 * (f * d + blocks + 2 * d * o + f * o)


def test_flops_of_nerd_are_those_of_its_whole_window_and_of_attention():
    model = build_model("nerd", CART, SMALL_NERD)
    f, o, d, w = model.frame_size, model.out_size, 16, 4
    layer = w * (3 * d * d + d * d + 8 * d * d) + 2 * w * w * d
    assert count_flops_per_step(model) == 2 * (w * f * d + 2 * layer + w * (d * 64 + 64 * o))


def test_optimized_nerd_saves_all_but_keys_and_values_of_its_last_layer():
    model = build_model("nerd_optimized", CART, SMALL_NERD)
    f, o, d, w = model.frame_size, model.out_size, 16, 4
    full = w * (3 * d * d + d * d + 8 * d * d) + 2 * w * w * d
    last = w * 2 * d * d + d * d + 2 * w * d + d * d + 8 * d * d
    assert count_flops_per_step(model) == 2 * (w * f * d + full + last + d * 64 + 64 * o)


def test_counting_flops_leaves_the_model_as_it_was():
    model = build_model("flashnerd", CART, SMALL_FLASH)
    model.train()
    count_flops_per_step(model)
    assert model.training


def test_equal_size_variants_have_equal_width_depth_and_heads():
    names = ["flashnerd", "nerd", "nerd_optimized"]
    for configs in ({}, {"flashnerd": {"width": 48, "blocks": 3, "heads": 4}}):
        chosen = throughput.variants(names, True, configs)
        by = {variant.label: variant for variant in chosen}
        pairs = throughput.equal_pairs(chosen)
        assert len(pairs) == 2
        for first, second in pairs.values():
            flash = build_model(by[first].name, CART, by[first].config).config
            nerd = build_model(by[second].name, CART, by[second].config).config
            assert (flash["width"], flash["blocks"], flash["heads"]) == (nerd["width"], nerd["layers"], nerd["heads"])
    assert "3x48" in pairs
    assert len(throughput.variants(["flashnerd"], True)) == 1
    assert throughput.equal_pairs(throughput.variants(names, False)) == {}


def test_calls_walk_through_every_chunk_of_the_batch_and_advance_each_cache():
    model = build_model("flashnerd", CART, SMALL_FLASH).eval()
    seen = []

    def step(frame, cache):
        seen.append((frame, cache))
        return model.step(frame, cache)

    call = throughput.make_call(model, step, batch=12, chunk=4, device="cpu")
    with torch.no_grad():
        assert [call() for _ in range(6)] == [4] * 6
    assert len({id(cache) for _, cache in seen}) == 3
    assert seen[0][1] is seen[3][1]
    assert int(seen[0][1].age[0]) == 2
    assert not torch.equal(seen[0][0], seen[1][0])


def test_rows_and_ratio_follow_the_best_of_each():
    cells, notes = throughput.measure(CART, small(), [4, 512], ["float32", "bfloat16"], [False], rounds=2, seconds=0.0)
    assert notes == []
    assert len(cells) == 3 * 2 * 2
    rows = [cell.row() for cell in cells]
    assert all(row["rounds"] == 2 and row["low"] <= row["steps_per_s"] <= row["high"] for row in rows)
    assert {row["chunk"] for row in rows if row["batch"] == 512} <= {256, 512}
    ratio = throughput.ratio(cells, "flashnerd", "nerd_optimized", [4, 512])
    for batch in (4, 512):
        fastest = {
            name: max(r["steps_per_s"] for r in rows if r["batch"] == batch and r["model"] == name)
            for name in ("flashnerd", "nerd_optimized")
        }
        assert ratio[str(batch)] == pytest.approx(fastest["flashnerd"] / fastest["nerd_optimized"])
    assert throughput.ratio(cells, "flashnerd", "absent", [4]) == {}
    assert "nerd_optimized" in throughput.table(cells)


def test_a_model_that_does_not_compile_is_a_note_and_the_rest_goes_on(monkeypatch):
    def no_compiler(function, **options):
        def fail(*args):
            raise RuntimeError("no C++ compiler")

        return fail

    monkeypatch.setattr(torch, "compile", no_compiler)
    cells, notes = throughput.measure(CART, small()[:1], [4], ["float32"], [False, True], rounds=1, seconds=0.0)
    assert [cell.compiled for cell in cells] == [False]
    assert len(notes) == 1
    assert "no C++ compiler" in notes[0]


def test_when_the_time_is_used_a_precision_is_left_out_for_all_models_alike():
    cells, notes = throughput.measure(
        CART, small(), [2, 4], ["float32", "bfloat16"], [False], rounds=1, seconds=0.0, limit_s=0.0
    )
    assert {(cell.batch, cell.dtype) for cell in cells} == {(2, "float32"), (4, "float32")}
    assert len(cells) == 6
    assert len(notes) == 2
    assert "bfloat16" in notes[0]
