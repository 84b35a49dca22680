"""Tensors as safetensors: written as a stream in the caller's order, read with every bit, and hashed."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from stemma.errors import StemmaError
from stemma.identities import DTYPES, leaf_hash, root_of, tensor_hasher

MAX_HEADER_BYTES = 100 * 1024 * 1024
MAX_RANK = 32
PIECE_BYTES = 4 * 1024 * 1024

Metrics = Mapping[str, Any]
"""Texts, numbers and booleans by name; `measurements` is a list of what was measured by iteration."""

_NUMPY_DTYPES = {
    "|b1": "BOOL",
    "|u1": "U8",
    "|i1": "I8",
    "<u2": "U16",
    "<i2": "I16",
    "<u4": "U32",
    "<i4": "I32",
    "<u8": "U64",
    "<i8": "I64",
    "<f2": "F16",
    "<f4": "F32",
    "<f8": "F64",
    "<c8": "C64",
}
_TORCH_DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "complex64": "C64",
}


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: what its header says, and where its bytes are in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class TensorStream:
    """A safetensors file that is made while it is sent."""

    header: bytes
    sources: Sequence[Any]
    length: int

    def pieces(self) -> Iterator[bytes]:
        """Give the bytes of the file; only one tensor at a time is copied."""
        yield self.header
        for source in self.sources:
            view = memoryview(written_bytes(source))
            for begin in range(0, len(view), PIECE_BYTES):
                yield bytes(view[begin : begin + PIECE_BYTES])


def stream_of(tensors: Mapping[str, Any]) -> TensorStream:
    """Describe a state dict of PyTorch, or a dict of numpy arrays, as a safetensors file."""
    header: dict[str, Any] = {}
    position = 0
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise StemmaError("USAGE", f"A tensor's name is text, not {name!r}. Name it.")
        dtype, shape, size = described(name, tensor)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + size]}
        position += size
    if not header:
        raise StemmaError("USAGE", "There is no tensor to save. Give a state dict, or a dict of arrays.")
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return TensorStream(struct.pack("<Q", len(text)) + text, list(tensors.values()), 8 + len(text) + position)


def tensors_of(model: Any) -> Mapping[str, Any]:
    """Give the tensors of a state dict, of a dict of arrays, or of a module of PyTorch."""
    tensors = model.state_dict() if hasattr(model, "state_dict") else model
    if isinstance(tensors, Mapping):
        return tensors
    raise StemmaError(
        "USAGE",
        f"A {type(model).__name__} cannot be saved. Give a state dict, a dict of numpy arrays, or a file's path.",
    )


def is_numpy(tensor: Any) -> bool:
    """Tell whether it is an array of numpy, which is not loaded for the answer."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(tensor, numpy.ndarray)


def _is_torch(tensor: Any) -> bool:
    return type(tensor).__module__.partition(".")[0] == "torch"


def described(name: str, tensor: Any) -> tuple[str, list[int], int]:
    """Give a tensor's element type as safetensors calls it, its shape and its number of bytes."""
    if is_numpy(tensor):
        dtype = _NUMPY_DTYPES.get(tensor.dtype.newbyteorder("<").str)
        kind: Any = tensor.dtype
        size = tensor.nbytes
    elif _is_torch(tensor) and hasattr(tensor, "element_size") and str(tensor.layout) == "torch.strided":
        dtype = _TORCH_DTYPES.get(str(tensor.dtype).removeprefix("torch."))
        kind = tensor.dtype
        size = tensor.numel() * tensor.element_size()
    else:
        dtype, kind, size = None, type(tensor).__name__, 0
    if dtype is None:
        raise StemmaError(
            "DTYPE_UNKNOWN",
            f"{name} cannot be saved: it is of {kind}. Save dense tensors of PyTorch or numpy, and others as a file.",
        )
    return dtype, list(tensor.shape), size


def written_bytes(tensor: Any) -> Any:
    """Give the bytes of one tensor, row-major and little-endian."""
    if is_numpy(tensor):
        return tensor.astype(tensor.dtype.newbyteorder("<"), order="C", copy=False).reshape(-1).view("u1")
    import torch

    dense = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    return dense.reshape(-1).view(torch.uint8).numpy()


def read_header(file: BinaryIO, path: Path) -> list[StoredTensor]:
    """Read and check the header of a safetensors file: its tensors fill the file without gaps."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise _malformed(path, "its header is longer than it may be")
    try:
        header = json.loads(file.read(length))
        tensors = [_entry(name, each, 8 + length) for name, each in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _malformed(path, f"its header cannot be read ({error})") from error
    position = 8 + length
    for tensor in sorted(tensors, key=lambda each: (each.begin, each.end)):
        if tensor.begin != position:
            raise _malformed(path, f"the bytes of {tensor.name} do not follow those before them")
        position = tensor.end
    if position != size:
        raise _malformed(path, f"it has {size} bytes, and its header describes {position}")
    return tensors


def _entry(name: str, entry: Any, start: int) -> StoredTensor:
    dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in DTYPES or len(shape) > MAX_RANK:
        raise ValueError(f"{name[:200]} has an element type or a shape that is not known")
    elements = 1
    for size in [*shape, begin, end]:
        if type(size) is not int or not 0 <= size <= 2**53:
            raise ValueError(f"{name[:200]} has a size that is not a whole number")
    for size in shape:
        elements *= size
    if (end - begin) * 8 != elements * DTYPES[dtype][1]:
        raise ValueError(f"{name[:200]} has another number of bytes than its shape")
    return StoredTensor(name, dtype, tuple(shape), start + begin, start + end)


def root_of_file(path: Path, paths: Sequence[tuple[str, str]]) -> str:
    """
    Compute the Merkle root of the tensors in a file.

    `paths` has the path and the name of each tensor, in the order of the model's leaves; the file has these alone.
    """
    with path.open("rb") as file:
        stored = {tensor.name: tensor for tensor in read_header(file, path)}
        if len(stored) != len(paths) or any(name not in stored for _, name in paths):
            raise StemmaError(
                "ROOT_MISMATCH", f"{path} has other tensors than the version that it was recovered from. Recover again."
            )
        leaves = [leaf_hash(leaf, _tensor_id(file, stored[name])) for leaf, name in paths]
    return root_of(leaves).hex()


def _tensor_id(file: BinaryIO, tensor: StoredTensor) -> bytes:
    hasher = tensor_hasher(tensor.dtype, tensor.shape)
    file.seek(tensor.begin)
    left = tensor.end - tensor.begin
    while left > 0:
        piece = file.read(min(PIECE_BYTES, left))
        if piece == b"":
            raise StemmaError("SAFETENSORS_TRUNCATED", f"The file ended within {tensor.name}. Fetch it again.")
        hasher.update(piece)
        left -= len(piece)
    return hasher.digest()


def load(path: Path, framework: str) -> dict[str, Any]:
    """Read all tensors of a file, in its order, as numpy arrays ("numpy") or as tensors of PyTorch ("torch")."""
    from safetensors import safe_open

    with path.open("rb") as file:
        stored = sorted(read_header(file, path), key=lambda each: (each.begin, each.end))
    known = set((_NUMPY_DTYPES if framework == "numpy" else _TORCH_DTYPES).values())
    foreign = [tensor for tensor in stored if tensor.dtype not in known]
    if foreign:
        raise StemmaError(
            "DTYPE_UNKNOWN",
            f"{foreign[0].name} is of {foreign[0].dtype}, which {framework} does not have. "
            "Recover into a file, or into PyTorch.",
        )
    with safe_open(path, framework="pt" if framework == "torch" else "numpy") as opened:
        return {tensor.name: opened.get_tensor(tensor.name) for tensor in stored}


def _malformed(path: Path, why: str) -> StemmaError:
    return StemmaError("SAFETENSORS_MALFORMED", f"{path} is not a safetensors file: {why}. Make it again.")
