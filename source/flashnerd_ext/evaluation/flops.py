"""Arithmetic of one model step, counted, so that speed can be told apart from size."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows


def _rows(model: DynamicsModel, device: torch.device) -> ContactRows | None:
    """All contact rows in use, for a model that takes them."""
    if not model.rows_capacity:
        return None
    shape = (1, model.rows_capacity)
    used = torch.ones(shape, dtype=torch.bool, device=device)
    link = torch.zeros(shape, dtype=torch.int64, device=device)
    return ContactRows(torch.zeros((*shape, ROW_SIZE), device=device), link, used)


def count_flops_per_step(model: DynamicsModel) -> int:
    """Floating-point operations of one ``model.step`` for one robot.

    Counted by running a step: two for each multiply-add of a matrix product or of attention. Elementwise work
    (norms, activations, the few products inside a short cache that are written elementwise) is not counted, the
    same for every model. A model that recomputes a window each step is charged for its whole window.
    """
    parameter = next(model.parameters())
    training = model.training
    model.eval()
    frame = torch.zeros(1, model.frame_size, device=parameter.device)
    cache = model.init_cache(1, device=parameter.device)
    counter = FlopCounterMode(display=False)
    # The fused attention kernels of some devices are unknown to the counter; the plain one is always counted.
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            model.step(frame, cache, _rows(model, parameter.device))
    finally:
        model.train(training)
    return int(counter.get_total_flops())
