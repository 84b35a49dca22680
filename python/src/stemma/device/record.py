"""Save records and owner maps as docs/formats.md defines them: read with care, and written for a child."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stemma.device.wire import read_varint, varint
from stemma.errors import StemmaError
from stemma.identities import canonical_json, object_id, short_hash

MAX_RECORD_BYTES = 64 * 1024
_KINDS = {
    "tree": "tree",
    "architecture": "architecture",
    "names": "names",
    "ownerMap": "owner-map",
    "environment": "environment",
    "metadata": "metadata",
    "layout": "attachment",
}
_NEEDED = ("tree", "architecture", "names", "ownerMap", "layout")
_LAYOUT = "stemma.layout"


@dataclass(frozen=True)
class Record:
    """A save record, with hashes as hexadecimal digits."""

    version: str
    content: bytes
    root: str
    bases: list[str]
    objects: dict[str, str]

    @property
    def architecture(self) -> str | None:
        """The id of the architecture, where it has one."""
        return self.objects.get("architecture")

    @property
    def name(self) -> str:
        """The name of the model."""
        return str(json.loads(self.content)["name"])

    @property
    def content_id(self) -> str:
        """What architecture and tensors have in common with other versions (docs/formats.md)."""
        architecture = self.architecture or "00" * 32
        return object_id("content", bytes.fromhex(architecture) + bytes.fromhex(self.root))

    def small_objects(self) -> list[tuple[str, str]]:
        """Kind and id of the objects that a device sends or keeps next to the tensors."""
        return [(_KINDS[name], id) for name, id in self.objects.items() if name in _KINDS]

    def needed_objects(self) -> list[tuple[str, str]]:
        """Kind and id of those that a device needs to run the version, and to make a child of it."""
        return [(_KINDS[name], id) for name, id in self.objects.items() if name in _NEEDED]

    @staticmethod
    def child(base: Record, root: str, small: Mapping[str, bytes], place: Mapping[str, Any]) -> Record:
        """Make the record of a version that was trained from another; `place` is fleet, device, line and sequence."""
        objects = {name: object_id(_KINDS[name], content) for name, content in small.items()}
        if base.architecture is not None:
            objects["architecture"] = base.architecture
        named: dict[str, Any] = {name: short_hash(id) for name, id in objects.items() if name != "layout"}
        if "layout" in objects:
            named["attachments"] = [{"name": _LAYOUT, "hash": short_hash(objects["layout"])}]
        value = {
            **place,
            "format": 1,
            "name": f"{place['line']}-{place['device']}",
            "bases": [short_hash(base.version)],
            "root": short_hash(root),
            "approach": "update",
            "savedAtMs": time.time_ns() // 1_000_000,
            "objects": named,
        }
        return read_record(canonical_json(value))


def read_record(content: bytes) -> Record:
    """Read the bytes of a record; what it is called follows from them alone."""
    try:
        if len(content) > MAX_RECORD_BYTES:
            raise ValueError("it is too long")
        value = json.loads(content)
        objects = {name: _long(id) for name, id in value["objects"].items() if isinstance(id, str)}
        # An attachment by its kind; of others than the layout a device needs nothing.
        objects.pop("layout", None)
        for each in value["objects"].get("attachments", []):
            if each["name"] == _LAYOUT and "architecture" in objects:
                objects["layout"] = _long(each["hash"])
        bases = [_long(each) for each in value["bases"]]
        root = _long(value["root"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StemmaError("RECORD_INVALID", f"A save record cannot be read: {error}. It is ignored.") from error
    if any(name not in objects for name in ("tree", "names", "ownerMap", "environment")) or len(bases) > 64:
        raise StemmaError("RECORD_INVALID", "A save record lacks an object that every record has. It is ignored.")
    return Record(object_id("record", content), content, root, bases, objects)


def owners_of(content: bytes, count: int, version: str) -> list[str]:
    """Read an owner map: the version that changed each leaf last; index 0 means the version itself."""
    try:
        owners, position = read_varint(content, 1)
        if content[0] != 1 or owners > count:
            raise ValueError("its format or number of owners is not known")
        ids = [version]
        for _ in range(owners):
            ids.append(content[position : position + 32].hex())
            position += 32
        runs, position = read_varint(content, position)
        found: list[str] = []
        for _ in range(runs):
            length, position = read_varint(content, position)
            index, position = read_varint(content, position)
            if len(found) + length > count:
                raise ValueError("it has more leaves than the model")
            found += [ids[index]] * length
        if len(found) != count or position != len(content):
            raise ValueError("it has another number of leaves than the model")
    except (StemmaError, ValueError, IndexError) as error:
        raise StemmaError(
            "OWNER_MAP_INVALID", f"An owner map cannot be read: {error}. Fetch the model again."
        ) from error
    return found


def encode_owner_map(owners: Sequence[str | None]) -> bytes:
    """Write an owner map; None means the version itself."""
    ids = list(dict.fromkeys(owner for owner in owners if owner is not None))
    runs: list[list[int]] = []
    for owner in owners:
        index = 0 if owner is None else ids.index(owner) + 1
        if runs and runs[-1][1] == index:
            runs[-1][0] += 1
        else:
            runs.append([1, index])
    numbers = [number for run in runs for number in run]
    head = bytes([1]) + varint(len(ids)) + b"".join(bytes.fromhex(id) for id in ids)
    return head + b"".join(varint(number) for number in [len(runs), *numbers])


def _long(short: Any) -> str:
    data = base64.b64decode(short + "=", altchars=b"-_", validate=True)
    if len(data) != 32:
        raise ValueError("a hash has another length")
    return data.hex()
