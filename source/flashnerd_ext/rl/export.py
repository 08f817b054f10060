"""Policy exports (TorchScript, ONNX) and the check that they give the runner's actions."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save

TOLERANCE = 1e-5
"""Largest allowed difference of an exported action to the runner's, relative to max(1, |action|)."""


def export_policy(policy: Any, target: Path, kind: str) -> Path:
    """Write ``policy`` (an rsl_rl model, normaliser included) to ``target``; the file appears whole.

    Args:
        policy: rsl_rl actor or student; it stays on its device.
        target: File to write.
        kind: "jit" or "onnx".
    """
    if kind == "jit":
        module = torch.jit.script(policy.as_jit().to("cpu").eval())
        return atomic_save(target, lambda temporary: module.save(str(temporary)))
    module = policy.as_onnx(verbose=False).to("cpu").eval()

    def save(temporary: Path) -> None:
        import onnx

        # The exporter talks a lot and names versions that do not matter to a user.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _quiet("torch.onnx", "onnxscript"):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                module.get_dummy_inputs(),
                f=None,
                opset_version=18,
                input_names=module.input_names,
                output_names=module.output_names,
                dynamic_shapes=_dynamic(module),
                verbose=False,
            )
        assert program is not None
        # One file without external data, so that it can be moved alone.
        onnx.save(program.model_proto, str(temporary))

    return atomic_save(target, save)


def _dynamic(module: Any) -> Any:
    """A free batch size for feed-forward policies; recurrent ones keep the exporter's fixed sizes."""
    if getattr(module, "is_recurrent", False):
        return None
    return tuple({0: torch.export.Dim("batch")} for _ in module.get_dummy_inputs())


@contextlib.contextmanager
def _quiet(*names: str):
    loggers = [logging.getLogger(name) for name in names]
    levels = [item.level for item in loggers]
    for item in loggers:
        item.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for item, level in zip(loggers, levels, strict=True):
            item.setLevel(level)


def exported_actions(target: Path, observations: torch.Tensor) -> torch.Tensor:
    """Actions [N, A] of an exported policy for observations [N, F] (float32, cpu)."""
    if target.suffix == ".onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        values = session.run(None, {name: observations.numpy().astype(np.float32)})[0]
        return torch.from_numpy(np.asarray(values))
    return torch.jit.load(str(target), map_location="cpu")(observations)


def check_export(policy: Any, target: Path, observations: Any, samples: int = 256) -> float:
    """Compare an export with the policy's mean actions.

    Args:
        policy: The rsl_rl model, in evaluation mode.
        target: The exported file.
        observations: TensorDict of observation groups, batch [N]; it is repeated with noise to ``samples`` rows, so
            that the comparison leaves the states of a fresh reset.
        samples: Rows to compare.

    Returns:
        The largest difference, relative to max(1, |action|).

    Raises:
        FlashNerdError: Where it is beyond :data:`TOLERANCE`.
    """
    repeats = -(-samples // observations.batch_size[0])
    generator = torch.Generator().manual_seed(0)

    def spread(value: torch.Tensor) -> torch.Tensor:
        rows = value.repeat(repeats, *[1] * (value.dim() - 1))[:samples]
        return rows + torch.randn(rows.shape, generator=generator).to(rows) * (rows.std() + 0.1)

    batch = observations.apply(spread, batch_size=[samples])
    expected = policy(batch).detach().cpu()
    flat = torch.cat([batch[group] for group in policy.obs_groups], dim=-1).cpu()
    found = exported_actions(target, flat)
    error = float(((found - expected).abs() / expected.abs().clamp_min(1.0)).max())
    if not error <= TOLERANCE:
        raise FlashNerdError(f"{target} differs from the runner's actions by {error:.1e}, allowed is {TOLERANCE:.0e}.")
    return error
