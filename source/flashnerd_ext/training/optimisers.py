"""Optimisers of a recipe, and one learning-rate curve for all of them."""

from __future__ import annotations

import math

from torch import nn
from torch.optim import Adam, AdamW, Muon, Optimizer

from flashnerd_ext.model.base import DynamicsModel

_MATRIX_PARTS = ("blocks.", "layers.")


def make_optimisers(model: DynamicsModel, kind: str, lr: float, muon_lr: float) -> list[Optimizer]:
    """Optimisers by name.

    Args:
        kind: ``soap`` (Adam in the eigenbasis of Shampoo's preconditioner; at equal updates it halved the error that
            Muon reached on CartPole), ``muon`` (Muon on block matrices, Adam on the rest) or ``adamw``.
        lr: Peak rate.
        muon_lr: Peak rate of Muon, scaled to match Adam's update size.
    """
    optimisers: list[Optimizer]
    if kind == "adamw":
        optimisers = [AdamW(model.parameters(), lr=lr, weight_decay=0.0)]
    elif kind == "soap":
        from pytorch_optimizer import SOAP

        optimisers = [
            SOAP(
                model.parameters(),
                lr=lr,
                betas=(0.95, 0.95),
                weight_decay=0.0,
                precondition_frequency=10,
                max_precondition_dim=512,
            )
        ]
    else:
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for name, parameter in model.named_parameters():
            is_matrix = parameter.ndim == 2 and name.startswith(_MATRIX_PARTS)
            (matrices if is_matrix else rest).append(parameter)
        optimisers = [
            Adam(rest, lr=lr, betas=(0.9, 0.99)),
            Muon(matrices, lr=muon_lr, weight_decay=0.0, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
        ]
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["peak_lr"] = group["lr"]
    return optimisers


def lr_factor(progress: float, warmup: float = 0.02, floor: float = 0.0) -> float:
    """Share of the peak rate at ``progress`` in [0, 1]: a short linear rise, then a cosine down to ``floor``."""
    if progress < warmup:
        return max(progress, 1e-3 * warmup) / warmup
    bend = 0.5 * (1.0 + math.cos(math.pi * (progress - warmup) / (1.0 - warmup)))
    return floor + (1.0 - floor) * bend


def set_lr(optimisers: list[Optimizer], factor: float) -> None:
    """Scale every group's peak rate by ``factor``."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["lr"] = group.setdefault("peak_lr", group["lr"]) * factor
