"""What a device keeps on its disk: objects by their ids, versions that can run, and its state. Writes are durable."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stemma.device.layouts import ORIGINAL, Layout, pieces_of_layout
from stemma.errors import StemmaError
from stemma.identities import DTYPES, leaf_hash, object_id, root_of, tensor_hasher

if TYPE_CHECKING:
    from stemma.device.record import Record

MAX_LEAVES = 1_000_000
MAX_PATH_BYTES = 65_535
MAX_TENSOR_BYTES = 2**40
MAX_STATE_BYTES = 64 * 1024 * 1024
SPOOL = "spool"
"""The folder of what has come of transfers that are not complete."""
KEPT_FILE = "stemma.file"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}")
_TAKEN_NAMES = frozenset(
    [
        "manifest.json",
        "model.safetensors",
        "architecture.json",
        "names.json",
        "pipeline.json",
        "optimizer.safetensors",
        "metrics.json",
        "measurement.json",
        "predictions.safetensors",
        "attachments",
    ]
)
_CODES = {code: name for name, (code, _) in DTYPES.items()}


@dataclass(frozen=True)
class Leaf:
    """One tensor of a model's tree."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    id: str

    @property
    def byte_length(self) -> int:
        """How many bytes the tensor has."""
        bits = DTYPES[self.dtype][1]
        for size in self.shape:
            bits *= size
        return bits // 8


class Store:
    """Objects below `objects`, each a file whose name is its id."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._folder = home / "objects"
        self._folder.mkdir(parents=True, exist_ok=True)

    def path(self, id: str) -> Path:
        """Name the file of an object."""
        return self._folder / id[:2] / id

    def has(self, id: str) -> bool:
        """Tell whether an object is here."""
        return self.path(id).exists()

    def put(self, id: str, content: bytes) -> None:
        """Keep an object; the caller has checked its id."""
        if not self.has(id):
            self.path(id).parent.mkdir(exist_ok=True)
            write_durably(self.path(id), content)

    def take(self, id: str, file: Path) -> None:
        """Keep a file as an object; the caller has checked its id."""
        self.path(id).parent.mkdir(exist_ok=True)
        sync_file(file)
        file.replace(self.path(id))
        sync_folder(self.path(id).parent)

    def read(self, kind: str, id: str) -> bytes:
        """Read a small object and compare it with its id."""
        content = self.path(id).read_bytes()
        if object_id(kind, content) != id:
            raise StemmaError("OBJECT_HASH_MISMATCH", f"The {kind} {id[:12]} is damaged. Remove {self.path(id)}.")
        return content

    def install(self, record: Record, leaves: list[Leaf], names: bytes, layout: Layout | None = None) -> Path:
        """Write a version as docs/reference/current.md describes; nothing of it is seen before it is complete."""
        kept, version = kept_file(leaves, names), record.version
        target = self.home / "versions" / version
        if target.exists():
            return target
        partial = self.home / "versions" / f".{version}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        model = partial / ("model.safetensors" if kept is None else kept.name)
        written = _write_file(model, self._file_of(leaves) if kept is None else self._tensor(leaves[0]))
        if kept is not None and written["sha256"] != kept.sha256:
            raise StemmaError("ROOT_MISMATCH", f"{kept.name} is not the file that was stated. Look at its source.")
        files = {model.name: written}
        if record.architecture is not None:
            for name, content in {
                "architecture.json": self.read("architecture", record.architecture),
                "names.json": _names_of_leaves(leaves, names),
            }.items():
                files[name] = _write_file(partial / name, iter([content]))
        if layout is not None:
            files[ORIGINAL] = _write_file(partial / ORIGINAL, pieces_of_layout(layout, self.files(leaves)))
        stated = {"name": record.name, "contentId": record.content_id, "root": root_of_leaves(leaves)}
        manifest = {"format": 1, "versionId": version, **stated, "files": files}
        manifest |= {} if kept is None else {"file": kept.name}
        write_durably(partial / "manifest.json", json.dumps(manifest).encode("utf-8"))
        partial.rename(target)
        sync_folder(target.parent)
        return target

    def files(self, leaves: list[Leaf]) -> list[Path]:
        """Name the files of these tensors."""
        return [self.path(leaf.id) for leaf in leaves]

    def _file_of(self, leaves: list[Leaf]) -> Iterator[bytes]:
        header: dict[str, Any] = {}
        position = 0
        for leaf in leaves:
            end = position + leaf.byte_length
            header[leaf.path] = {"dtype": leaf.dtype, "shape": list(leaf.shape), "data_offsets": [position, end]}
            position = end
        text = json.dumps(header, ensure_ascii=False).encode("utf-8")
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text
        for leaf in leaves:
            yield from self._tensor(leaf)

    def _tensor(self, leaf: Leaf) -> Iterator[bytes]:
        hasher = tensor_hasher(leaf.dtype, leaf.shape)
        for piece in pieces_of(self.path(leaf.id)):
            hasher.update(piece)
            yield piece
        if hasher.hexdigest() != leaf.id:
            raise StemmaError("OBJECT_HASH_MISMATCH", f"The tensor {leaf.path} is damaged. Fetch the model again.")

    def bytes_of_transfer(self, transfer: str) -> int:
        """Tell how much has come of a transfer."""
        file = self.home / SPOOL / transfer
        return file.stat().st_size if file.exists() else 0

    def forget_transfers(self, before: float) -> None:
        """Remove what has come of transfers that ended before that time, and were not complete."""
        for file in (self.home / SPOOL).glob("*"):
            if file.suffix != "" or file.stat().st_mtime < before:
                file.unlink()

    def keep_transfers(self, kept: set[str]) -> None:
        """Remove what has come of other transfers than these."""
        for file in (self.home / SPOOL).glob("*"):
            if file.stem not in kept:
                file.unlink()

    def remove_objects(self, live: set[str]) -> None:
        """Remove the objects that are not among these."""
        for folder in list(self._folder.iterdir()):
            for file in list(folder.iterdir()):
                if file.name not in live:
                    file.unlink()

    def remove_version(self, version: str) -> None:
        """Remove an installed version: a reader finds all of it, or nothing. Also what a crash left of one."""
        folder = self.home / "versions" / version
        leaving = folder if version.startswith(".") else folder.with_name(f".{version}.leaving")
        if leaving != folder:
            shutil.rmtree(leaving, ignore_errors=True)
            folder.rename(leaving)
        if leaving.exists():
            shutil.rmtree(leaving)

    def switch(self, line: str, version: str) -> None:
        """Let the line's link point to a version, atomically."""
        folder = self.home / "current"
        folder.mkdir(exist_ok=True)
        link = folder / f".{line}.new"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("..") / "versions" / version)
        link.replace(folder / line)
        sync_folder(folder)


@dataclass(frozen=True)
class KeptFile:
    """A file that is kept as it is, as stated by who saved it."""

    name: str
    sha256: str


def is_kept_file(leaves: list[Leaf]) -> bool:
    """Tell whether a model is a file that is kept as it is (docs/formats.md)."""
    return len(leaves) == 1 and (leaves[0].path, leaves[0].dtype, len(leaves[0].shape)) == (KEPT_FILE, "U8", 1)


def _names_of_leaves(leaves: list[Leaf], names: bytes) -> bytes:
    """Name each leaf as the file or the framework called it, by its path."""
    try:
        called = json.loads(names)["leaves"]
        named = {leaf.path: str(called[at]) for at, leaf in enumerate(leaves)}
        return (json.dumps(named, indent=2, ensure_ascii=False) + "\n").encode()
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise StemmaError("NAMES_INVALID", f"The names of a model cannot be read: {error}. It is ignored.") from error


def kept_file(leaves: list[Leaf], names: bytes) -> KeptFile | None:
    """Read what a file that is kept as it is is called; None for a model of tensors."""
    if not is_kept_file(leaves):
        return None
    try:
        metadata = json.loads(names)["fileMetadata"]
        kept = KeptFile(metadata[KEPT_FILE], metadata[f"{KEPT_FILE}.sha256"])
        if not _PLAIN_NAME.fullmatch(kept.name) or kept.name.lower() in _TAKEN_NAMES:
            raise ValueError("its name is not a plain one")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StemmaError(
            "NAMES_INVALID", f"The model is a file without a safe name: {error}. It is ignored."
        ) from error
    return kept


def encode_tree(leaves: list[Leaf], has_architecture: bool) -> bytes:
    """Write a tree object (docs/formats.md)."""
    parts = [struct.pack("<BBI", 1, int(has_architecture), len(leaves))]
    for leaf in leaves:
        path = leaf.path.encode("utf-8")
        parts.append(struct.pack("<I", len(path)) + path)
        shape = struct.pack(f"<{len(leaf.shape)}Q", *leaf.shape)
        parts.append(bytes([DTYPES[leaf.dtype][0], len(leaf.shape)]) + shape + bytes.fromhex(leaf.id))
    return b"".join(parts)


def decode_tree(data: bytes) -> list[Leaf]:
    """Read a tree object; every length is checked before anything is made of it."""
    leaves: list[Leaf] = []
    try:
        form, _, count = struct.unpack_from("<BBI", data)
        if form != 1 or count > MAX_LEAVES:
            raise ValueError("its format or number of leaves is not known")
        position = 6
        for _ in range(count):
            (size,) = struct.unpack_from("<I", data, position)
            end = position + 4 + size
            if size > MAX_PATH_BYTES or end + 2 > len(data):
                raise ValueError("a path is too long")
            path = data[position + 4 : end].decode("utf-8")
            dtype, rank = _CODES[data[end]], data[end + 1]
            if rank > 32:
                raise ValueError("a shape has more than 32 dimensions")
            shape = struct.unpack_from(f"<{rank}Q", data, end + 2)
            position = end + 2 + 8 * rank + 32
            leaf = Leaf(path, dtype, shape, data[position - 32 : position].hex())
            if position > len(data) or leaf.byte_length > MAX_TENSOR_BYTES:
                raise ValueError("it ends early, or a tensor is too large")
            leaves.append(leaf)
    except (struct.error, ValueError, KeyError, IndexError) as error:
        raise StemmaError("TREE_MALFORMED", f"A tree cannot be read: {error}. Fetch the model again.") from error
    if position != len(data):
        raise StemmaError("TREE_MALFORMED", "A tree has more bytes than leaves. Fetch the model again.")
    return leaves


def root_of_leaves(leaves: list[Leaf]) -> str:
    """Give the Merkle root of a tree."""
    return root_of([leaf_hash(leaf.path, bytes.fromhex(leaf.id)) for leaf in leaves]).hex()


def _write_file(path: Path, pieces: Iterator[bytes]) -> dict[str, Any]:
    """Write a file of a version; gives what its manifest states of it."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    sync_file(path)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def pieces_of(path: Path, begin: int = 0, length: int | None = None) -> Iterator[bytes]:
    """Read a file, or a range of it, in pieces."""
    left = path.stat().st_size - begin if length is None else length
    with path.open("rb") as file:
        file.seek(begin)
        while left > 0 and (piece := file.read(min(left, 1024 * 1024))):
            left -= len(piece)
            yield piece


def disk_error(error: OSError) -> StemmaError:
    """Say that something could not be written or read."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StemmaError("DISK_FULL", f"The disk of this device is full: {error}. Free some space.")
    return StemmaError("FILE_FAILED", f"The home of this device cannot be used: {error}. Look at its disk and rights.")


def read_json(path: Path, code: str) -> dict[str, Any]:
    """Read a file of JSON, bounded."""
    try:
        if path.stat().st_size > MAX_STATE_BYTES:
            raise ValueError("it is too large")
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise StemmaError(code, f"{path} cannot be read: {error}. Name another file.") from error
    if not isinstance(value, dict):
        raise StemmaError(code, f"{path} is not an object of JSON. Name another file.")
    return value


def write_durably(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it is there as it was before, or completely; for its owner alone."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Make a file's bytes durable."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
