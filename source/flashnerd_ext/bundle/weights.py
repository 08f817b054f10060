"""Weights: tensors from a safetensors file that is trusted with nothing. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashnerd_ext.bundle.folder import WEIGHTS_FILE
from flashnerd_ext.bundle.schema import show
from flashnerd_ext.errors import FlashNerdError, one_line

if TYPE_CHECKING:
    from torch import Tensor, nn

MAX_HEADER_BYTES = 4 * 2**20
"""Longest header that is read [bytes]."""
MAX_TENSORS = 10_000
"""Most tensors in a file."""
_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_REMEDY = "fetch the bundle again"


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a header: safetensors' name of its dtype, its shape, its bytes in the data block."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _refuse(text: str, remedy: str = _REMEDY) -> FlashNerdError:
    return FlashNerdError(f"{WEIGHTS_FILE} {text}: {remedy}.")


def read_header(data: bytes) -> dict[str, TensorEntry]:
    """The tensors that a safetensors file claims to hold, checked against its size.

    Raises:
        FlashNerdError: When the header is damaged or contradicts the file.
    """
    if len(data) < 8:
        raise _refuse(f"has {len(data)} bytes, but at least 8 are needed for its header")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES or length > len(data) - 8:
        raise _refuse(
            f"says that its header has {length} bytes, but at most {min(MAX_HEADER_BYTES, len(data) - 8)} are possible "
            f"in a file of {len(data)} bytes, so it is truncated or not a safetensors file"
        )

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) != len(items):
            raise ValueError("a key stands twice")
        return dict(items)

    try:
        header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise _refuse(
            f"has a header that is not JSON ({one_line(error, 60)}), but a safetensors file is needed"
        ) from None
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise _refuse(f"has a header of another kind, but an object of at most {MAX_TENSORS} tensors is needed")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _refuse("has metadata that are not texts, but an object of texts is needed")
    entries = {name: _entry(name, item) for name, item in header.items()}
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            raise _refuse(
                f"places tensor {show(name)} at byte {entry.begin}, but {position} is next, without gap or overlap"
            )
        position = entry.end
    if position != len(data) - 8 - length:
        raise _refuse(
            f"has {len(data) - 8 - length} bytes of data, but its header describes {position}, so it is truncated"
        )
    return entries


def _entry(name: str, item: Any) -> TensorEntry:
    def good(value: Any, length: int | None = None) -> bool:
        return (
            isinstance(value, list)
            and (len(value) == length if length is not None else len(value) <= 8)
            and all(type(number) is int and 0 <= number < 2**40 for number in value)
        )

    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "data_offsets"}:
        raise _refuse(f"describes tensor {show(name)} oddly, but exactly dtype, shape and data_offsets are needed")
    dtype, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise _refuse(f"gives tensor {show(name)} the dtype {show(dtype)}, but one of {', '.join(_SIZES)} is needed")
    if not good(shape) or not good(offsets, 2):
        raise _refuse(
            f"gives tensor {show(name)} shape {show(shape)} and offsets {show(offsets)}, but lists of sizes are needed"
        )
    size = math.prod(shape) * _SIZES[dtype]
    if offsets[1] - offsets[0] != size:
        raise _refuse(
            f"gives tensor {show(name)} {offsets[1] - offsets[0]} bytes, but {dtype} {show(shape)} needs {size}"
        )
    return TensorEntry(dtype, tuple(shape), offsets[0], offsets[1])


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def names_of_dtypes() -> dict[Any, str]:
    """torch's dtypes to safetensors' names."""
    import torch

    return {
        torch.float64: "F64",
        torch.float32: "F32",
        torch.float16: "F16",
        torch.bfloat16: "BF16",
        torch.int64: "I64",
        torch.int32: "I32",
        torch.int16: "I16",
        torch.int8: "I8",
        torch.uint8: "U8",
        torch.bool: "BOOL",
    }


def serialize(model: nn.Module) -> bytes:
    """The model's state as a safetensors file.

    Raises:
        FlashNerdError: When a tensor holds NaN or infinity.
    """
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    check_finite(state, "train again with a lower learning rate")
    return save(state)


def deserialize(data: bytes) -> dict[str, Tensor]:
    """Tensors of a file whose header :func:`read_header` has accepted.

    Raises:
        FlashNerdError: When the library refuses the file, or a tensor holds NaN or infinity.
    """
    from safetensors.torch import load

    try:
        state = load(data)
    except Exception as error:  # the library's own error types are not all public
        raise _refuse(f"cannot be read as safetensors ({one_line(error, 80)}), but such a file is needed") from None
    check_finite(state, _REMEDY)
    return state


def check_finite(state: dict[str, Tensor], remedy: str) -> None:
    """Refuse NaN and infinity in floating-point tensors."""
    import torch

    for name, value in state.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise _refuse(
                f"has {bad} of {value.numel()} numbers of tensor {show(name)} NaN or infinite, but all must be finite",
                remedy,
            )


@dataclass(frozen=True)
class Difference:
    """A tensor that the file and the model do not agree on; ``None`` where one lacks it."""

    name: str
    stored: tuple[str, tuple[int, ...]] | None
    current: tuple[str, tuple[int, ...]] | None

    def __str__(self) -> str:
        def text(value: tuple[str, tuple[int, ...]] | None) -> str:
            return "absent" if value is None else f"{value[0]}{list(value[1])}"

        return f"{show(self.name)[1:-1]}: stored {text(self.stored)}, current {text(self.current)}"


def shapes(model: nn.Module) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name of each tensor of a model to safetensors' name of its dtype and its shape."""
    names = names_of_dtypes()
    return {
        name: (names.get(value.dtype, str(value.dtype)), tuple(value.shape))
        for name, value in model.state_dict().items()
    }


def differences(entries: dict[str, TensorEntry], model: nn.Module) -> list[Difference]:
    """What a file's header and a model's state do not agree on, in the model's order."""
    current = shapes(model)
    stored = {name: (entry.dtype, entry.shape) for name, entry in entries.items()}
    return [
        Difference(name, stored.get(name), current.get(name))
        for name in [*current, *(name for name in stored if name not in current)]
        if stored.get(name) != current.get(name)
    ]
