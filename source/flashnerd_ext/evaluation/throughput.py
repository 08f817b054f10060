"""Model-only throughput: all models in one process, in turns, so that a busy machine is equally unkind to each.

A *call* is one ``model.step`` of one chunk of robots with everything resident; a batch larger than the chunk is a
ring of chunks that calls walk through. Whether a chunk helps is tried for every model, and each gets its best.
"""

from __future__ import annotations

import itertools
import statistics
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from flashnerd_ext.errors import one_line
from flashnerd_ext.evaluation.flops import count_flops_per_step
from flashnerd_ext.evaluation.ratios import quotients
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.flashnerd import FlashNerdConfig
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.nerd import NerdConfig
from flashnerd_ext.model.registry import build_model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CHUNKS = (256, 1024)
"""Chunk sizes tried beside the whole batch; 256 robots of either model fit a core's cache."""
WHOLE_LIMIT_S = 5.0
"""A chunk that would take longer than this a call is not tried; smaller ones are."""
COMPILE_LIMIT_S = 60.0
"""When a chunk size took longer than this to compile, no larger one is compiled."""


@dataclass(frozen=True)
class Variant:
    """One model to measure."""

    label: str
    """Name in the results, e.g. ``nerd_optimized@2x64``."""
    name: str
    """Name in the model registry."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Options that differ from the defaults."""


@dataclass
class Cell:
    """One model, dtype and compilation at one batch size, and what was measured of it."""

    variant: Variant
    dtype: str
    compiled: bool
    batch: int
    call: Callable[[], int]
    """Makes one call and returns how many robots it stepped."""
    chunk: int
    rates: list[float] = field(default_factory=list)
    """Robot steps per second of each round."""

    @property
    def rate(self) -> float:
        """Median over rounds [robot steps / s]."""
        return statistics.median(self.rates)

    def row(self) -> dict[str, Any]:
        """Entry of the results."""
        return {
            "batch": self.batch,
            "dtype": self.dtype,
            "model": self.variant.label,
            "compiled": self.compiled,
            "steps_per_s": self.rate,
            "low": min(self.rates),
            "high": max(self.rates),
            "rounds": len(self.rates),
            "chunk": self.chunk,
        }


def variants(
    models: Sequence[str], equal_size: bool, configs: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Variant]:
    """Models to measure.

    Args:
        models: Names in the model registry.
        equal_size: Add FlashNeRD and Optimized NeRD at each other's width, depth and heads; their labels say so,
            e.g. ``nerd_optimized@2x64`` for 2 layers of width 64.
        configs: Options of a model that differ from its defaults, e.g. those of a bundle.
    """
    configs = configs or {}
    chosen = [Variant(name, name, configs.get(name, {})) for name in models]
    if equal_size and {"flashnerd", "nerd_optimized"} <= set(models):
        flash = {**asdict(FlashNerdConfig()), **configs.get("flashnerd", {})}
        nerd = {**asdict(NerdConfig()), **configs.get("nerd_optimized", {})}
        # A gated branch of h has 3 d h products where a GELU of 4 d has 8 d^2, so equal arithmetic is h = 8/3 d.
        hidden = nerd["width"] * 8 // 3
        small = {"width": flash["width"], "layers": flash["blocks"], "heads": flash["heads"]}
        large = {"width": nerd["width"], "blocks": nerd["layers"], "heads": nerd["heads"], "hidden": hidden}
        chosen += [
            Variant(f"nerd_optimized@{small['layers']}x{small['width']}", "nerd_optimized", {**nerd, **small}),
            Variant(f"flashnerd@{large['blocks']}x{large['width']}", "flashnerd", {**flash, **large}),
        ]
    return chosen


def equal_pairs(chosen: Sequence[Variant]) -> dict[str, tuple[str, str]]:
    """``{size: (FlashNeRD's label, Optimized NeRD's label)}`` of the models that have equal width and depth."""
    pairs = {}
    for variant in chosen:
        name, at, size = variant.label.partition("@")
        if at:
            pairs[size] = (variant.label, "nerd_optimized") if name == "flashnerd" else ("flashnerd", variant.label)
    return pairs


def make_call(
    model: DynamicsModel, step: Callable[..., torch.Tensor], batch: int, chunk: int, device: str
) -> Callable[[], int]:
    """A closure that steps the next chunk of ``batch`` robots; frames and caches stay on the device."""
    frames = torch.randn(batch, model.frame_size, generator=torch.Generator().manual_seed(0)).to(device)
    pieces = [(piece.contiguous(), model.init_cache(len(piece), device)) for piece in frames.split(chunk)]
    place = 0

    def call() -> int:
        nonlocal place
        frame, cache = pieces[place]
        place = (place + 1) % len(pieces)
        step(frame, cache)
        return len(frame)

    return call


def timed(call: Callable[[], int], seconds: float, device: str, calls: int = 1) -> float:
    """Robot steps per second of at least ``calls`` calls and about ``seconds``."""
    _synchronize(device)
    start, done, count = time.perf_counter(), 0, 0
    while True:
        done += call()
        count += 1
        if count >= calls and (count % 8 == 0 or device == "cpu") and time.perf_counter() - start >= seconds:
            break
    _synchronize(device)
    return done / (time.perf_counter() - start)


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def own_step(model: DynamicsModel, compiled: bool) -> Callable[..., torch.Tensor]:
    """``model.step``, compiled or not.

    torch.compile keeps its results by code object and looks through all of them at each call; a function of its own
    for each model keeps one model's calls from paying for the others.
    """
    if not compiled:
        return model.step

    def step(frame: torch.Tensor, cache: Any) -> torch.Tensor:
        return model.step(frame, cache)

    code = step.__code__.replace(co_name=f"step_{id(model):x}")
    return torch.compile(types.FunctionType(code, globals(), code.co_name, None, step.__closure__), dynamic=False)


def pilot(
    model: DynamicsModel, step: Callable[..., Any], batch: int, device: str, compiled: bool = False
) -> tuple[Callable[[], int], int]:
    """The quickest way to walk through a batch: ``(call, chunk)``."""
    best: tuple[float, Callable[[], int], int] | None = None
    slow = False
    for size in [*(size for size in CHUNKS if size < batch and batch % size == 0), batch]:
        if best is not None and (slow or size / best[0] > WHOLE_LIMIT_S or (compiled and size > max(CHUNKS))):
            break
        call = make_call(model, step, batch, size, device)
        start = time.perf_counter()
        call()
        first = time.perf_counter() - start
        slow = compiled and first > COMPILE_LIMIT_S
        rate = size / first if first > 2.0 and not compiled else timed(call, 0.1, device, calls=2)
        if best is None or rate > best[0]:
            best = (rate, call, size)
    assert best is not None
    return best[1], best[2]


def measure(
    layout: StateLayout,
    chosen: Sequence[Variant],
    batches: Sequence[int],
    dtypes: Sequence[str],
    compiled: Sequence[bool],
    rounds: int,
    seconds: float,
    device: str = "cpu",
    limit_s: float = float("inf"),
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Cell], list[str]]:
    """Measure every model at every batch size.

    Args:
        layout: Joints of the robot.
        chosen: Models.
        batches: Robots stepped together.
        dtypes: ``float32`` and ``bfloat16``: of the matrices; states stay float32.
        compiled: Eager (False) and torch.compile (True).
        rounds: Turns that every model gets.
        seconds: Length of a turn, at least one call [s].
        device: Where.
        limit_s: Once this long was spent on preparation (compilation above all), further precisions and compilations
            are left out, for all models alike, and noted [s].
        progress: Called with a word at each preparation and each turn.

    Returns:
        Cells in the order batch, precision, model; and one sentence for each that did not run.
    """
    say = progress or (lambda text: None)
    cells: list[Cell] = []
    notes: list[str] = []
    built: dict[tuple[str, str, bool], tuple[DynamicsModel, Callable[..., torch.Tensor]]] = {}
    spent = 0.0
    with torch.no_grad():
        for index, batch in enumerate(batches):
            here: list[Cell] = []
            for compile_it, dtype in itertools.product(compiled, dtypes):
                mode = f"{dtype} {'compiled' if compile_it else 'eager'}"
                # Left out for all models or for none, else the ratio would compare unequal efforts.
                if here and spent > limit_s * (index + 1) / len(batches):
                    notes.append(f"batch {batch}, {mode}, is left out: preparation took its {limit_s:.0f} s.")
                    continue
                start = time.perf_counter()
                for variant in chosen:
                    say(f"prepare {variant.label} {mode}")
                    key = (variant.label, dtype, compile_it)
                    if key not in built:
                        model = build_model(variant.name, layout, variant.config).to(device).eval()
                        model.requires_grad_(False)
                        model.set_compute_dtype(DTYPES[dtype])
                        built[key] = (model, own_step(model, compile_it))
                    try:
                        call, chunk = pilot(*built[key], batch, device, compile_it)
                    except Exception as error:  # no C++ compiler, or no kernel for the dtype
                        if type(error).__module__.partition(".")[0] != "torch" and not isinstance(error, RuntimeError):
                            raise
                        notes.append(f"{variant.label} {mode} does not run here: {one_line(error, 120)}")
                        continue
                    here.append(Cell(variant, dtype, compile_it, batch, call, chunk))
                spent += time.perf_counter() - start
            for turn in range(rounds):
                # Each round starts elsewhere, so that no model always follows the same neighbour.
                first = turn * 3 % max(1, len(here))
                for cell in here[first:] + here[:first]:
                    say(f"batch {batch} {cell.variant.label}")
                    cell.rates.append(timed(cell.call, seconds, device))
            for cell in here:
                cell.call = _nothing  # lets go of the buffers before the next batch
            cells += here
    return cells, notes


def _nothing() -> int:
    return 0


def best(cells: Sequence[Cell], label: str, batch: int) -> Cell | None:
    """Fastest form of a model at a batch size."""
    found = [cell for cell in cells if cell.variant.label == label and cell.batch == batch]
    return max(found, key=lambda cell: cell.rate, default=None)


def ratio(cells: Sequence[Cell], first: str, second: str, batches: Sequence[int]) -> dict[str, float]:
    """Best of ``first`` over best of ``second`` at each batch size where both ran."""
    above, below = (
        {batch: found.rate for batch in batches if (found := best(cells, label, batch)) is not None}
        for label in (first, second)
    )
    return quotients(above, below)


def sizes(layout: StateLayout, chosen: Sequence[Variant]) -> dict[str, dict[str, Any]]:
    """Parameters and arithmetic of each model."""
    table = {}
    for variant in chosen:
        model = build_model(variant.name, layout, variant.config)
        table[variant.label] = {
            "params": model.parameter_count(),
            "flops_per_step": count_flops_per_step(model),
            "config": model.config,
        }
    return table


def table(cells: Sequence[Cell]) -> str:
    """Results as text for a terminal."""
    head = ("batch", "model", "dtype", "mode", "chunk", "steps/s", "low", "high")
    rows = [head] + [
        (
            f"{c.batch:,}", c.variant.label, c.dtype, "compiled" if c.compiled else "eager", f"{c.chunk:,}",
            f"{c.rate:,.0f}", f"{min(c.rates):,.0f}", f"{max(c.rates):,.0f}",
        )
        for c in cells
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    right = {0, 4, 5, 6, 7}
    return "\n".join(
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )
