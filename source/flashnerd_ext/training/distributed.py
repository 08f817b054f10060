"""Data-parallel training through torch.distributed; a single process is the case world = 1."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed

from flashnerd_ext.errors import FlashNerdError


@dataclass(frozen=True)
class Ranks:
    """This process's place among all of them."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, batch: int) -> slice:
        """This process's part of a batch that all draw alike, so that the result does not depend on ``world``."""
        if batch % self.world:
            raise FlashNerdError(
                f"train.batch is {batch}, which {self.world} processes cannot share evenly: "
                f"type train.batch={batch // self.world * self.world or self.world}."
            )
        each = batch // self.world
        return slice(self.rank * each, (self.rank + 1) * each)

    def agree(self, value: int) -> int:
        """Rank 0's value, on all ranks."""
        if self.world == 1:
            return value
        box = torch.tensor([value], dtype=torch.int64)
        if distributed.get_backend() == "nccl":
            box = box.cuda()
        distributed.broadcast(box, 0)
        return int(box.item())


@contextmanager
def ranks(device: str) -> Iterator[Ranks]:
    """Join the process group that ``torchrun`` announced, if any; nccl for CUDA, gloo otherwise."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    place = Ranks(int(os.environ["RANK"]), world, int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield place
    finally:
        distributed.destroy_process_group()


def choose_device(wanted: str, local: int = 0) -> torch.device:
    """``auto`` is this rank's GPU where there is one, else the CPU."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda"):
        if not torch.cuda.is_available():
            raise FlashNerdError(f"device is '{wanted}', but torch sees no CUDA device: type device=cpu.")
        return torch.device(wanted if ":" in wanted else f"cuda:{local}")
    if wanted != "cpu":
        raise FlashNerdError(f"device is '{wanted}', but auto, cpu or cuda is needed.")
    return torch.device("cpu")
