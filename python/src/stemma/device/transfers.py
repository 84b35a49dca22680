"""Transfers of docs/protocol.md: a stream of objects in blocks, which the receiver asks for and checks by hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stemma.device.store import SPOOL, Store, pieces_of, sync_file
from stemma.device.wire import MAX_BLOCK_BYTES, Message
from stemma.errors import StemmaError
from stemma.identities import tensor_hasher

BLOCKS_OF_PART = 16
OBJECTS_OF_PART = 512
MIN_BLOCK_BYTES = 4 * 1024
BLOCK_BYTES = 256 * 1024
MAX_BLOCKS = 4_194_304
MAX_OBJECT_BYTES = 64 * 1024 * 1024
"""The largest object that is not a tensor: those are read whole."""
STALL_SECONDS = 15.0
MAX_STALLS = 8
MAX_WRONG = 3


@dataclass(frozen=True)
class Wanted:
    """An object of a stream; for a tensor what its id is computed with."""

    kind: str
    id: str
    byte_length: int | None
    """None: not known before the manifest."""
    dtype: str = ""
    shape: tuple[int, ...] = ()

    def hasher(self) -> hashlib._Hash:
        """Begin the object's id."""
        if self.kind == "tensor":
            return tensor_hasher(self.dtype, self.shape)
        return hashlib.sha256(f"stemma-{self.kind}-1\0".encode())


class Download:
    """
    The receiving side: what is asked for, what has come, and a file that is filled.

    The same objects of a version are one transfer, also after a restart: what its file has of each block that the
    manifest names is not asked for again.
    """

    def __init__(self, store: Store, version: str, wanted: Sequence[Wanted], now: float) -> None:
        self.transfer = self.name_of(version, wanted)
        self._store = store
        self._wanted = list(wanted)
        self._file = store.home / SPOOL / self.transfer
        self._file.parent.mkdir(exist_ok=True)
        self._file.touch()
        self._bytes = self._block_bytes = self._blocks = self._parts = 0
        self._hashes: dict[int, bytes] = {}
        self._lengths: dict[int, int] = {}
        self._have: set[int] = set()
        self._asked: set[int] = set()
        self._asked_parts: set[int] = set()
        self._wrong: dict[int, int] = {}
        self._moved = now
        self._stalls = 0

    @staticmethod
    def name_of(version: str, wanted: Sequence[Wanted]) -> str:
        """Name the transfer of these objects."""
        named = " ".join([version, *(f"{each.kind}:{each.id}" for each in wanted)])
        return hashlib.sha256(f"stemma-fetch {named}".encode()).hexdigest()[:32]

    @property
    def is_complete(self) -> bool:
        """Whether all has come."""
        return self._parts > 0 and len(self._have) == self._blocks and len(self._hashes) == self._parts

    def requests(self, window: int, now: float) -> list[Message]:
        """Ask for what is missing, at most a window of blocks at a time, and again after silence."""
        if now - self._moved > STALL_SECONDS:
            self._stalls += 1
            if self._stalls >= MAX_STALLS:
                raise self._failed("TRANSFER_STALLED", f"nothing came for {MAX_STALLS * STALL_SECONDS:.0f} s")
            self._asked.clear()
            self._asked_parts.clear()
            self._moved = now
        parts: list[int] = []
        blocks: list[int] = []
        for part in range(max(self._parts, 1)):
            if part not in self._hashes:
                if part not in self._asked_parts:
                    parts.append(part)
                break
            for block in range(part * BLOCKS_OF_PART, min((part + 1) * BLOCKS_OF_PART, self._blocks)):
                if len(self._asked) + len(blocks) >= window:
                    break
                if block not in self._have and block not in self._asked:
                    blocks.append(block)
        self._asked.update(blocks)
        self._asked_parts.update(parts)
        request = {"transfer": self.transfer, "blocks": blocks, "manifest_parts": parts}
        return [request] if blocks or parts else []

    def on_manifest(self, manifest: Message, now: float) -> None:
        """Take a part of the manifest, which has to fit what was asked for."""
        shape = (manifest["byte_length"], manifest["block_bytes"], manifest["parts"])
        if self._parts == 0:
            self._set_shape(*shape)
        part, hashes = manifest["part"], manifest["block_hashes"]
        count = min(BLOCKS_OF_PART, max(0, self._blocks - part * BLOCKS_OF_PART))
        encodings = manifest["encodings"]
        known = shape == (self._bytes, self._block_bytes, self._parts) and part < self._parts
        if not known or len(hashes) != 32 * count or any(each["code"] != 0 for each in encodings):
            raise self._failed("TRANSFER_MANIFEST_INVALID", "a part of its manifest does not fit what was asked for")
        if part not in self._hashes:
            self._hashes[part] = hashes
            self._have.update(self._found(range(part * BLOCKS_OF_PART, part * BLOCKS_OF_PART + count)))
        for index, encoding in enumerate(encodings, part * OBJECTS_OF_PART):
            self._lengths[index] = encoding["byte_length"]
        self._moved, self._stalls = now, 0

    def _found(self, blocks: range) -> list[int]:
        """Those of these blocks that the file has already."""
        begun = -(-self._file.stat().st_size // self._block_bytes)
        return [block for block in blocks if block < begun and self._hash_of(block) == self._named_hash(block)]

    def _hash_of(self, block: int) -> bytes:
        digest = hashlib.sha256()
        for piece in pieces_of(self._file, block * self._block_bytes, self._size_of(block)):
            digest.update(piece)
        return digest.digest()

    def _named_hash(self, block: int) -> bytes:
        at = 32 * (block % BLOCKS_OF_PART)
        return self._hashes[block // BLOCKS_OF_PART][at : at + 32]

    def _size_of(self, block: int) -> int:
        return min(self._block_bytes, self._bytes - block * self._block_bytes)

    def _set_shape(self, length: int, block_bytes: int, parts: int) -> None:
        unknown = sum(each.byte_length is None for each in self._wanted)
        known = sum(each.byte_length or 0 for each in self._wanted)
        if not MIN_BLOCK_BYTES <= block_bytes <= MAX_BLOCK_BYTES:
            raise self._failed("TRANSFER_MANIFEST_INVALID", f"its blocks have {block_bytes} bytes")
        blocks = -(-length // block_bytes)
        expected = max(1, -(-blocks // BLOCKS_OF_PART), -(-len(self._wanted) // OBJECTS_OF_PART))
        if not known <= length <= known + unknown * MAX_OBJECT_BYTES or blocks > MAX_BLOCKS or parts != expected:
            raise self._failed("TRANSFER_MANIFEST_INVALID", f"it states {length} bytes in {parts} parts")
        self._bytes, self._block_bytes, self._blocks, self._parts = length, block_bytes, blocks, parts

    def on_block(self, block: Message, now: float) -> None:
        """Take a block where its hash is the manifest's."""
        index, data = block["index"], block["data"]
        is_named = index < self._blocks and index // BLOCKS_OF_PART in self._hashes
        if not is_named or index in self._have or index not in self._asked:
            return
        self._asked.discard(index)
        if len(data) != self._size_of(index) or hashlib.sha256(data).digest() != self._named_hash(index):
            self._wrong[index] = self._wrong.get(index, 0) + 1
            if self._wrong[index] >= MAX_WRONG:
                raise self._failed("BLOCK_HASH_MISMATCH", f"block {index} came {MAX_WRONG} times with another hash")
            return
        with self._file.open("rb+") as file:
            file.seek(index * self._block_bytes)
            file.write(data)
        self._have.add(index)
        self._moved, self._stalls = now, 0

    def keep(self) -> None:
        """Compare every object with its id, and put it into the store."""
        position = 0
        piece_file = self._file.with_suffix(".object")
        sync_file(self._file)
        for index, wanted in enumerate(self._wanted):
            length = self._lengths.get(index, wanted.byte_length)
            if length is None or (wanted.byte_length is not None and length != wanted.byte_length):
                raise self._failed("TRANSFER_MANIFEST_INVALID", f"it does not state the length of the {wanted.kind}")
            hasher = wanted.hasher()
            with piece_file.open("wb") as file:
                for piece in pieces_of(self._file, position, length):
                    hasher.update(piece)
                    file.write(piece)
            if hasher.hexdigest() != wanted.id:
                raise self._failed("OBJECT_HASH_MISMATCH", f"the {wanted.kind} {wanted.id[:12]} has another hash")
            self._store.take(wanted.id, piece_file)
            position += length
        if position != self._bytes:
            raise self._failed("TRANSFER_MANIFEST_INVALID", "it has more bytes than objects")

    def discard(self) -> None:
        """Remove what has come."""
        self._file.unlink(missing_ok=True)
        self._file.with_suffix(".object").unlink(missing_ok=True)

    def _failed(self, code: str, why: str) -> StemmaError:
        return StemmaError(
            code, f"The transfer {self.transfer} ends: {why}. The model is fetched when it is offered again."
        )


class Upload:
    """The sending side: answers requests with parts of the manifest and blocks, from the files of the objects."""

    def __init__(self, transfer: str, files: Sequence[Path], block_bytes: int) -> None:
        self._transfer = transfer
        self._files = [(file, file.stat().st_size) for file in files]
        self._bytes = sum(size for _, size in self._files)
        self._block_bytes = max(MIN_BLOCK_BYTES, min(block_bytes or BLOCK_BYTES, BLOCK_BYTES))
        self._blocks = -(-self._bytes // self._block_bytes)
        self._parts = max(1, -(-self._blocks // BLOCKS_OF_PART), -(-len(self._files) // OBJECTS_OF_PART))

    def manifest(self, part: int) -> Message | None:
        """Make one part of the manifest."""
        if part >= self._parts:
            return None
        blocks = range(part * BLOCKS_OF_PART, min((part + 1) * BLOCKS_OF_PART, self._blocks))
        sizes = self._files[part * OBJECTS_OF_PART : (part + 1) * OBJECTS_OF_PART]
        return {
            "transfer": self._transfer,
            "part": part,
            "parts": self._parts,
            "byte_length": self._bytes,
            "block_bytes": self._block_bytes,
            "block_hashes": b"".join(hashlib.sha256(self._read(block)).digest() for block in blocks),
            "encodings": [{"code": 0, "byte_length": size} for _, size in sizes],
        }

    def block(self, index: int) -> Message | None:
        """Read one block."""
        return {"index": index, "data": self._read(index)} if index < self._blocks else None

    def _read(self, index: int) -> bytes:
        begin = index * self._block_bytes
        left = min(self._block_bytes, self._bytes - begin)
        parts: list[bytes] = []
        for file, size in self._files:
            if left > 0 and begin < size:
                count = min(left, size - begin)
                parts.append(b"".join(pieces_of(file, begin, count)))
                left -= count
            begin = max(0, begin - size)
        return b"".join(parts)
