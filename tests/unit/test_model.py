"""The model: streaming equals training, the past is per world, contacts do not depend on order or padding."""

from __future__ import annotations

import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ROW_SIZE, ContactEncoder, ContactRows
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.registry import build_model

LAYOUT = StateLayout(("slide", "hinge"), ("prismatic", "continuous"), actuated=("slide",), position_free=("slide",))
SMALL = {
    "flashnerd": {"width": 32, "heads": 2, "hidden": 48, "span": 3},
    "nerd": {"width": 24, "heads": 2, "layers": 2, "window": 5},
    "nerd_optimized": {"width": 24, "heads": 2, "layers": 2, "window": 5},
}


def make(name: str, dtype: torch.dtype = torch.float32, **extra: object) -> DynamicsModel:
    torch.manual_seed(0)
    model = build_model(name, LAYOUT, SMALL[name] | extra)
    # Trained statistics are not the identity: give the comparison something to get wrong.
    model.frame_norm.fit(torch.randn(model.frame_size), torch.rand(model.frame_size) + 0.5)
    model.out_norm.fit(torch.randn(model.out_size), torch.rand(model.out_size) + 0.5)
    return model.to(dtype).eval()


def stream(model: DynamicsModel, frames: torch.Tensor, cache: object = None) -> torch.Tensor:
    cache = cache or model.init_cache(frames.shape[0], dtype=frames.dtype)
    return torch.stack([model.step(frames[:, t], cache) for t in range(frames.shape[1])], 1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@torch.no_grad()
def test_step_equals_sequence_through_ring_wrap(dtype: torch.dtype, tolerance: float) -> None:
    model = make("flashnerd", dtype)
    frames = torch.randn(7, 20, model.frame_size, dtype=dtype)
    expected = model.sequence(frames)
    assert torch.allclose(stream(model, frames), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["nerd", "nerd_optimized"])
@torch.no_grad()
def test_window_models_equal_sequence_and_slide(name: str) -> None:
    model = make(name)
    frames = torch.randn(4, 9, model.frame_size)
    streamed = stream(model, frames)
    assert torch.allclose(streamed[:, :5], model.sequence(frames[:, :5]), atol=2e-6)
    # Past the window the newest five frames count, as if they were the whole past.
    for t in range(5, 9):
        assert torch.allclose(streamed[:, t], model.sequence(frames[:, t - 4 : t + 1])[:, -1], atol=2e-6)


@torch.no_grad()
def test_optimized_nerd_is_the_same_function() -> None:
    plain, fast = make("nerd"), make("nerd_optimized")
    fast.load_state_dict(plain.state_dict())
    frames = torch.randn(3, 12, plain.frame_size)
    assert torch.allclose(stream(plain, frames), stream(fast, frames), atol=2e-6)


@torch.no_grad()
def test_receptive_field_is_what_history_says() -> None:
    model = make("flashnerd", torch.float64)
    frames = torch.randn(1, 12, model.frame_size, dtype=torch.float64)
    base = model.sequence(frames)[0, -1]
    moved = []
    for back in range(12):
        other = frames.clone()
        other[0, -1 - back] += 1.0
        moved.append(not torch.equal(model.sequence(other)[0, -1], base))
    assert moved == [back < model.history for back in range(12)]


@pytest.mark.parametrize("name", list(SMALL))
@torch.no_grad()
def test_partial_reset_is_a_fresh_start_and_leaves_others_bit_identical(name: str) -> None:
    model = make(name)
    before, after = torch.randn(6, 7, model.frame_size), torch.randn(6, 7, model.frame_size)
    cache, untouched = model.init_cache(6), model.init_cache(6)
    stream(model, before, cache)
    stream(model, before, untouched)
    mask = torch.tensor([False, True, False, False, True, False])
    cache.reset(mask)
    assert cache.age[mask].eq(0).all()
    got, plain = stream(model, after, cache), stream(model, after, untouched)
    assert torch.equal(got[~mask], plain[~mask])
    assert torch.allclose(got[mask], stream(model, after)[mask], atol=1e-6)
    assert not torch.allclose(got[mask], plain[mask], atol=1e-4)


@pytest.mark.parametrize("name", list(SMALL))
@torch.no_grad()
def test_nan_in_one_world_stays_there_and_reset_heals_it(name: str) -> None:
    model = make(name)
    frames = torch.randn(5, 8, model.frame_size)
    bad = frames.clone()
    bad[3, 2] = float("nan")
    cache = model.init_cache(5)
    got = stream(model, bad[:, :4], cache)
    others = torch.arange(5) != 3
    assert torch.equal(got[others], stream(model, frames[:, :4])[others])
    assert not torch.isfinite(got[3, 2:]).any()
    cache.reset(torch.arange(5) == 3)
    healed = stream(model, frames[:, 4:], cache)
    assert torch.isfinite(healed).all()
    assert torch.allclose(healed[3], stream(model, frames[:, 4:])[3], atol=1e-6)


def rows_of(batch: int, used: int, capacity: int = 6) -> ContactRows:
    mask = (torch.arange(capacity) < used).expand(batch, capacity)
    return ContactRows(torch.randn(batch, capacity, ROW_SIZE), torch.randint(0, 3, (batch, capacity)), mask)


@pytest.mark.parametrize("used", [0, 1, 4, 6])
@torch.no_grad()
def test_contacts_ignore_order_and_padding(used: int) -> None:
    torch.manual_seed(1)
    encoder = ContactEncoder(width=16, links=3, slots=4, capacity=6)
    rows = rows_of(5, used)
    base = encoder(rows)
    assert torch.isfinite(base).all()
    order = torch.randperm(6)
    shuffled = ContactRows(rows.features[:, order], rows.link[:, order], rows.used[:, order])
    assert torch.allclose(encoder(shuffled), base, atol=1e-6)
    garbage = rows.features.masked_fill(~rows.used.unsqueeze(-1), float("nan"))
    links = torch.where(rows.used, rows.link, torch.full_like(rows.link, 10**9))
    assert torch.allclose(encoder(ContactRows(garbage, links, rows.used)), base, atol=1e-6)


@torch.no_grad()
def test_contacts_count_and_content_matter() -> None:
    torch.manual_seed(1)
    encoder = ContactEncoder(width=16, links=3, slots=4, capacity=6)
    rows = rows_of(5, 3)
    twice = ContactRows(
        torch.cat((rows.features[:, :3], rows.features[:, :3]), 1),
        torch.cat((rows.link[:, :3], rows.link[:, :3]), 1),
        torch.ones(5, 6, dtype=torch.bool),
    )
    assert not torch.allclose(encoder(rows), encoder(twice), atol=1e-4)  # same rows, other count
    moved = ContactRows(rows.features + 0.1, rows.link, rows.used)
    assert not torch.allclose(encoder(rows), encoder(moved), atol=1e-4)


@pytest.mark.parametrize("slots", [0, 4])
@torch.no_grad()
def test_streaming_with_contact_rows(slots: int) -> None:
    model = make("flashnerd", rows_capacity=6, links=3, slots=slots)
    frames = torch.randn(5, 9, model.frame_size)
    steps = [rows_of(5, used % 7) for used in range(9)]
    stacked = ContactRows(
        torch.stack([r.features for r in steps], 1),
        torch.stack([r.link for r in steps], 1),
        torch.stack([r.used for r in steps], 1),
    )
    cache = model.init_cache(5)
    got = torch.stack([model.step(frames[:, t], cache, steps[t]) for t in range(9)], 1)
    assert torch.allclose(got, model.sequence(frames, stacked), atol=1e-6)
    with pytest.raises(FlashNerdError, match="6 contact rows"):
        model.sequence(frames)


@torch.no_grad()
def test_bfloat16_matrices_keep_float32_statistics() -> None:
    model = make("flashnerd")
    frames = torch.randn(16, 10, model.frame_size)
    exact = model.sequence(frames)
    model.set_compute_dtype(torch.bfloat16)
    assert model.frame_norm.mean.dtype == torch.float64
    got = stream(model, frames, model.init_cache(16))
    assert got.dtype == torch.float32
    assert (got - exact).abs().max() < 0.1 * exact.abs().max()


def test_wrong_options_are_named() -> None:
    with pytest.raises(FlashNerdError, match=r"did you mean flashnerd"):
        build_model("flashnrd", LAYOUT)
    with pytest.raises(FlashNerdError, match=r"no option 'widht': did you mean width"):
        build_model("flashnerd", LAYOUT, {"widht": 3})
    with pytest.raises(FlashNerdError, match=r"type int is needed"):
        build_model("flashnerd", LAYOUT, {"width": "64"})
    with pytest.raises(FlashNerdError, match=r"options.heads=4"):
        build_model("flashnerd", LAYOUT, {"width": 64, "heads": 5})


def stacked(steps: list[ContactRows]) -> ContactRows:
    """Rows of successive frames, [B, T, K, ...]."""
    parts = (torch.stack([getattr(row, name) for row in steps], 1) for name in ("features", "link", "used"))
    return ContactRows(*parts)


def part(rows: ContactRows, begin: int, end: int) -> ContactRows:
    """Rows of frames ``begin`` to ``end`` of [B, T, K, ...]."""
    return ContactRows(rows.features[:, begin:end], rows.link[:, begin:end], rows.used[:, begin:end])


@pytest.mark.parametrize("slots", [0, 4])
@pytest.mark.parametrize("name", ["nerd", "nerd_optimized"])
@torch.no_grad()
def test_window_models_keep_what_contacts_added_to_each_frame(name: str, slots: int) -> None:
    """Step equals sequence over the window, past its end and after a reset of some worlds."""
    model = make(name, rows_capacity=6, links=3, slots=slots)
    frames = torch.randn(5, 12, model.frame_size)
    rows = stacked([rows_of(5, 6 if slots == 0 else used % 7) for used in range(12)])
    cache = model.init_cache(5)
    mask = torch.tensor([True, False, False, True, False])
    got = []
    for t in range(12):
        if t == 8:
            cache.reset(mask)
        got.append(model.step(frames[:, t], cache, ContactRows(rows.features[:, t], rows.link[:, t], rows.used[:, t])))
    for t in range(12):
        begin = max(0, t - 4)
        wanted = model.sequence(frames[:, begin : t + 1], part(rows, begin, t + 1))[:, -1]
        seen = ~mask if t >= 8 else torch.ones(5, dtype=torch.bool)
        assert torch.allclose(got[t][seen], wanted[seen], atol=1e-6), t
    for t in range(8, 12):
        fresh = model.sequence(frames[:, 8 : t + 1], part(rows, 8, t + 1))[:, -1]
        assert torch.allclose(got[t][mask], fresh[mask], atol=1e-6), t
    # What a frame's contacts were counts as long as the frame is in the window, and no longer.
    other = ContactRows(rows.features.clone(), rows.link, rows.used)
    other.features[:, 1] += 1.0
    whole, moved = (model.sequence(frames[:, :5], part(item, 0, 5)) for item in (rows, other))
    assert torch.equal(whole[:, 0], moved[:, 0])
    assert not torch.allclose(whole[:, 4], moved[:, 4], atol=1e-4)
    with pytest.raises(FlashNerdError, match="6 contact rows"):
        model.step(frames[:, 0], cache)


@torch.no_grad()
def test_both_nerds_are_one_function_of_contacts_and_stay_one_in_bfloat16() -> None:
    plain, fast = (make(name, rows_capacity=6, links=3, slots=0) for name in ("nerd", "nerd_optimized"))
    fast.load_state_dict(plain.state_dict())
    frames, steps = torch.randn(4, 9, plain.frame_size), [rows_of(4, 6) for _ in range(9)]

    def streamed(model: DynamicsModel) -> torch.Tensor:
        cache = model.init_cache(4)
        return torch.stack([model.step(frames[:, t], cache, steps[t]) for t in range(9)], 1)

    exact = streamed(plain)
    assert torch.allclose(streamed(fast), exact, atol=2e-6)
    rounded = streamed(fast.set_compute_dtype(torch.bfloat16))
    assert rounded.dtype == torch.float32
    assert (rounded - exact).abs().max() < 0.1 * exact.abs().max()


def test_nerd_without_contacts_is_what_it_was() -> None:
    """Its weights, their names and its stored options: bundles from before it took contact rows go on working."""
    model = make("nerd")
    assert set(model.config) == {"width", "layers", "heads", "window", "head_hidden", "prior", "sensed"}
    assert not [name for name in model.state_dict() if name.startswith("contacts")]
    cache = model.init_cache(2)
    assert cache.frames.shape == (2, 5, model.frame_size)  # pyright: ignore[reportAttributeAccessIssue]
    # Contacts are made after all other weights, so that a seed draws the same ones with and without.
    other = make("nerd", rows_capacity=2, links=2).state_dict()
    mine = {name: value for name, value in model.state_dict().items() if "_norm." not in name}
    assert all(torch.equal(value, other[name]) for name, value in mine.items())
    assert {"rows_capacity", "slots", "links"} <= set(make("nerd", rows_capacity=2, links=2).config)


@pytest.mark.parametrize("name", ["flashnerd", "nerd"])
def test_contact_options_that_make_no_sense_are_refused(name: str) -> None:
    for wrong, least in (({"rows_capacity": -1}, 0), ({"slots": -2}, 0), ({"links": 0}, 1)):
        key = next(iter(wrong))
        with pytest.raises(FlashNerdError, match=rf"options\.{key} is {wrong[key]}, but at least {least}"):
            build_model(name, LAYOUT, wrong)
