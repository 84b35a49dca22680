"""
A model as the file of PyTorch that it was imported from: the layout of docs/formats.md ("stemma.layout").

Weights are read from their files while the other is written, in pieces. Bits move; only addends are computed.
"""

from __future__ import annotations

import array
import base64
import json
import math
import mmap
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stemma.errors import StemmaError
from stemma.identities import DTYPES, canonical_json, leaf_hash, root_of, tensor_hasher

ORIGINAL = "original.safetensors"
MAX_LAYOUT_BYTES = 16 * 1024 * 1024
MAX_TENSORS = 1_000_000
MAX_AXES = 16
MAX_REORDERED_BYTES = 256 * 1024 * 1024
_PIECE_BYTES = 256 * 1024
_WORDS: dict[int, Literal["B", "H", "I", "Q"]] = {1: "B", 2: "H", 4: "I", 8: "Q"}
_NOT_A_NUMBER = bytes.fromhex("0000c07f")
_MEMBERS = frozenset(["name", "dtype", "shape", "leaf", "as", "axes", "blocks", "part", "bytes", "addend"])


@dataclass(frozen=True)
class FileTensor:
    """A tensor of the file: a weight (`leaf`), what stands beside them (`content`), or one of two addends (both)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    leaf: int | None
    split: tuple[int, ...] | None
    """The shape in which its axes are put in the order of `axes`, after its first one in that of `blocks`."""
    axes: tuple[int, ...]
    blocks: tuple[int, ...] | None
    part: tuple[int, int]
    content: bytes | None
    addend: str | None

    @property
    def byte_length(self) -> int:
        """How many bytes it has."""
        return _byte_length(self.dtype, self.shape)


@dataclass(frozen=True)
class Layout:
    """The tensors of the file in its order; `root` is theirs as of a model without an architecture."""

    root: str
    tensors: tuple[FileTensor, ...]
    value: dict[str, Any]
    """The JSON that it was read from."""

    @property
    def byte_length(self) -> int:
        """How many bytes the file's tensors have."""
        return sum(tensor.byte_length for tensor in self.tensors)

    def metadata(self, member: str) -> dict[str, Any]:
        """Give the file's metadata as a member of this name; none where it has none."""
        # Canonical JSON puts a $ before names that begin with one.
        found = {name[name[:1] == "$" :]: text for name, text in self.value.get("metadata", {}).items()}
        return {member: found} if "metadata" in self.value else {}

    def header(self) -> bytes:
        """Give the header of the file, with its metadata."""
        entries = self.metadata("__metadata__")
        position = 0
        for each in self.tensors:
            end = position + each.byte_length
            entries[each.name] = {"dtype": each.dtype, "shape": list(each.shape), "data_offsets": [position, end]}
            position = end
        text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text


def decode_layout(content: bytes, leaves: Sequence[Any]) -> Layout:
    """Read a layout that may be hostile: each leaf is made of one tensor, of its parts, or of its two addends."""
    try:
        if len(content) > MAX_LAYOUT_BYTES:
            raise ValueError("it is too long")
        value = json.loads(content)
        known, tensors = {"format", "root", "tensors", "metadata"}, value["tensors"]
        if value["format"] not in (1, 2) or not set(value) <= known or len(tensors) > MAX_TENSORS:
            raise ValueError("its format is not 1 or 2")
        if any(type(text) is not str for text in value.get("metadata", {}).values()):
            raise ValueError("its metadata are not all texts")
        if type(value["root"]) is not str or len(bytes.fromhex(value["root"])) != 32:
            raise ValueError("it has no root")
        layout = Layout(value["root"], tuple(_tensor_of(each) for each in tensors), value)
        _require_each_leaf_once(layout.tensors, leaves)
        # Names that UTF-8 cannot write.
        layout.header()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise StemmaError(
            "MODEL_FILE_MALFORMED",
            f"The layout of the file that the model came from cannot be used: {error}. Import the model again.",
        ) from error
    return layout


def _tensor_of(value: dict[str, Any]) -> FileTensor:
    name, content = value["name"], value.get("bytes")
    if type(name) is not str or name == "__metadata__" or value["dtype"] not in DTYPES or not set(value) <= _MEMBERS:
        raise ValueError("a tensor has no name or type, or unknown members")
    one, of = _counts(value.get("part", [0, 1]))
    tensor = FileTensor(
        name,
        value["dtype"],
        _counts(value["shape"]),
        None if "leaf" not in value else _counts([value["leaf"]])[0],
        None if "as" not in value else _counts(value["as"]),
        _counts(value.get("axes", [])),
        None if "blocks" not in value else _counts(value["blocks"]),
        (one, of),
        None if content is None else base64.b64decode(content, validate=True),
        value.get("addend"),
    )
    is_sum = tensor.leaf is not None and tensor.addend in ("kept", "difference") and tensor.dtype == "F32"
    is_moved = any(member in value for member in ("as", "axes", "blocks", "part"))
    if content is None and (tensor.leaf is None or tensor.addend is not None):
        raise ValueError(f"{name[:80]} is neither a weight nor beside them")
    if content is not None and (is_moved or not (is_sum or (tensor.leaf, tensor.addend) == (None, None))):
        raise ValueError(f"{name[:80]} is a weight and beside them")
    if tensor.content is not None and len(tensor.content) != tensor.byte_length:
        raise ValueError(f"{name[:80]} has not the bytes of its shape")
    _require_order(tensor, ("as" in value, "axes" in value))
    return tensor


def _require_order(tensor: FileTensor, given: tuple[bool, bool]) -> None:
    split, name, (at, of) = tensor.split, tensor.name[:80], tensor.part
    if not (at < of <= MAX_AXES) or given[0] != given[1] or (tensor.blocks is not None and split is None):
        raise ValueError(f"{name} has a part or an order that is not complete")
    if (of > 1 or split is not None) and tensor.byte_length * of > MAX_REORDERED_BYTES and not _keeps_order(tensor):
        raise ValueError(f"{name} has too many bytes to be put in another order")
    if split is None:
        return
    is_own = _byte_length(tensor.dtype, split) == tensor.byte_length and DTYPES[tensor.dtype][1] % 8 == 0
    blocks = tensor.blocks
    is_whole = blocks is None or (len(blocks) == (*split, 0)[0] and sorted(blocks) == list(range(len(blocks))))
    if not (is_own and is_whole and sorted(tensor.axes) == list(range(len(split)))):
        raise ValueError(f"the axes of {name} are not its own, each once")


def _require_each_leaf_once(tensors: Sequence[FileTensor], leaves: Sequence[Any]) -> None:
    names: set[str] = set()
    made: dict[int, tuple[Any, set[Any]]] = {}
    for tensor in tensors:
        if tensor.name in names:
            raise ValueError(f"it has the tensor {tensor.name[:80]} twice")
        names.add(tensor.name)
        if tensor.leaf is None:
            continue
        leaf, (at, of) = leaves[tensor.leaf], tensor.part
        kind, place = ("sum", 2), tensor.addend
        if tensor.addend is None:
            kind, place = ("parts", of), str(at)
        if tensor.dtype != leaf.dtype or tensor.byte_length * of != _byte_length(leaf.dtype, leaf.shape):
            raise ValueError(f"{tensor.name[:80]} has another type or size than its weight")
        seen = made.setdefault(tensor.leaf, (kind, set()))
        if seen[0] != kind or place in seen[1]:
            raise ValueError(f"the weight {tensor.leaf} is made of other tensors too")
        seen[1].add(place)
    if len(made) != len(leaves) or any(len(places) != kind[1] for kind, places in made.values()):
        raise ValueError("it does not make each weight")


def _byte_length(dtype: str, shape: Sequence[int]) -> int:
    bits = math.prod(shape) * DTYPES[dtype][1]
    if bits % 8 != 0 or bits > 2**53:
        raise ValueError("a tensor has a shape that no tensor has")
    return bits // 8


def _counts(value: Any) -> tuple[int, ...]:
    if type(value) is not list or len(value) > MAX_AXES:
        raise ValueError("a shape is not a list of at most 16 numbers")
    if any(type(each) is not int or not 0 <= each <= 2**53 for each in value):
        raise ValueError("a shape has something else than whole numbers")
    return tuple(value)


def _keeps_order(tensor: FileTensor) -> bool:
    """Tell whether the elements stay where they are."""
    split, blocks = tensor.split, tensor.blocks or ()
    moved = [] if split is None else [axis for axis in tensor.axes if split[axis] != 1]
    return moved == sorted(moved) and list(blocks) == sorted(blocks)


def pieces_of_layout(layout: Layout, files: Sequence[Path]) -> Iterator[bytes]:
    """
    Give the bytes of the file; at their end its tensors are compared with the root that was stated.

    `files` have the tensors of the model's leaves.
    """
    yield layout.header()
    leaves: dict[str, bytes] = {}
    for tensor in layout.tensors:
        hasher = tensor_hasher(tensor.dtype, tensor.shape)
        for piece in _pieces_of(layout, tensor, files):
            hasher.update(piece)
            yield piece
        leaves[tensor.name] = hasher.digest()
    if _root_of(leaves) != layout.root:
        raise StemmaError(
            "ROOT_MISMATCH",
            f"The tensors in {ORIGINAL} are not those that were stated. Look where the model comes from.",
        )


def inherited(layout: Layout, files: Sequence[Path]) -> bytes:
    """Give the layout of a model with these weights that was made from one of this layout, as an attachment."""
    tensors: list[dict[str, Any]] = []
    leaves: dict[str, bytes] = {}
    for tensor, value in zip(layout.tensors, layout.value["tensors"], strict=True):
        hasher = tensor_hasher(tensor.dtype, tensor.shape)
        kept: list[bytes] = []
        for piece in _pieces_of(layout, tensor, files):
            hasher.update(piece)
            if tensor.addend is not None:
                kept.append(piece)
        leaves[tensor.name] = hasher.digest()
        own = {} if tensor.addend is None else {"bytes": base64.b64encode(b"".join(kept)).decode("ascii")}
        tensors.append({**value, **own})
    made = {"format": layout.value["format"], "root": _root_of(leaves), "tensors": tensors}
    return canonical_json(made | layout.metadata("metadata"))


def _root_of(leaves: Mapping[str, bytes]) -> str:
    names = sorted(leaves, key=lambda name: name.encode("utf-8"))
    return root_of([leaf_hash(name, leaves[name]) for name in names]).hex()


def _pieces_of(layout: Layout, tensor: FileTensor, files: Sequence[Path]) -> Iterator[bytes]:
    if tensor.leaf is None or tensor.addend == "kept":
        yield tensor.content or b""
        return
    if tensor.byte_length == 0:
        return
    at, of = tensor.part
    path, length = files[tensor.leaf], tensor.byte_length
    with path.open("rb") as file:
        if path.stat().st_size != of * length:
            raise StemmaError("OBJECT_HASH_MISMATCH", f"{path} is damaged. Remove it, and fetch the model again.")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with mapped, memoryview(mapped) as whole, whole[at * length : (at + 1) * length] as weight:
        if tensor.content is not None:
            kept = next(each for each in layout.tensors if (each.leaf, each.addend) == (tensor.leaf, "kept"))
            yield _difference(bytes(weight), tensor.content, kept.content or b"")
        elif _keeps_order(tensor):
            yield from (bytes(weight[begin : begin + _PIECE_BYTES]) for begin in range(0, length, _PIECE_BYTES))
        else:
            yield from _restored(weight, tensor)


def _restored(weight: memoryview, tensor: FileTensor) -> Iterator[bytes]:
    """Give a weight's elements in the order of the file: parts of it, filled along their longest axis."""
    split, width = [*(tensor.split or ()), 1], DTYPES[tensor.dtype][1] // 8
    steps, step = [1] * len(split), 1
    for axis in reversed(tensor.axes):
        steps[axis], step = step, step * split[axis]
    rows: list[Sequence[int]] = [range(0, count * each, each) for count, each in zip(split, steps, strict=True)]
    if tensor.blocks is not None:
        rows[0] = [tensor.blocks.index(block) * steps[0] for block in range(split[0])]
    first = 0 if tensor.blocks is None else 1
    short = [axis for axis in range(first, len(split)) if math.prod(split[axis:]) * width <= _PIECE_BYTES]
    longest = max(short, key=lambda axis: split[axis])
    within = list(_places(rows[longest + 1 :]))
    end, step = rows[longest][-1] + 1, steps[longest]
    filled = memoryview(bytearray(width * split[longest] * len(within))).cast(_WORDS[width])
    with weight.cast(_WORDS[width]) as words:
        for begin in _places(rows[:longest]):
            for at, further in enumerate(within):
                filled[at :: len(within)] = words[begin + further : begin + further + end : step]
            yield filled.tobytes()


def _places(rows: Sequence[Sequence[int]]) -> Iterator[int]:
    """Give the sums of one place of each row; unlike itertools.product it keeps no copies of the rows."""
    if not rows:
        yield 0
        return
    for first in rows[0]:
        for further in _places(rows[1:]):
            yield first + further


def _difference(weight: bytes, file: bytes, kept: bytes) -> bytes:
    """Give the number of the file where the sum is still its, else the weight less the kept one, as float32."""
    result = bytearray(_combined(weight, kept, float.__sub__))
    before = _combined(file, kept, float.__add__)
    for at in range(0, len(weight), 4):
        if before[at : at + 4] == weight[at : at + 4]:
            result[at : at + 4] = file[at : at + 4]
    return bytes(result)


def _combined(one: bytes, other: bytes, compute: Callable[[float, float], float]) -> bytes:
    count = len(one) // 4
    pairs = zip(struct.unpack(f"<{count}f", one), struct.unpack(f"<{count}f", other), strict=True)
    # Unlike struct, an array rounds what is too large to infinity.
    numbers = array.array("f", [compute(a, b) for a, b in pairs])
    if sys.byteorder == "big":
        numbers.byteswap()
    result = bytearray(numbers.tobytes())
    for at in range(0, len(result), 4):
        if math.isnan(struct.unpack_from("<f", result, at)[0]):
            result[at : at + 4] = _NOT_A_NUMBER
    return bytes(result)
