"""The messages of docs/protocol.md as protocol buffers: a table of their fields, encoder and decoder. Bounded."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from stemma.errors import StemmaError

MAX_MESSAGE_BYTES = 64 * 1024
MAX_BLOCK_BYTES = 512 * 1024
MAX_LIST = 16_384
MAX_TEXT_BYTES = 4 * 4096
_MAX_UINT = 2**64 - 1

Message = dict[str, Any]
# Each message's fields as number:name:kind. Kinds: u unsigned, i signed, b boolean, s text, y bytes, or the name of a
# message; + means a list. Fields that this client does not use are left out, and ignored where they come.
_FIELDS = """
Envelope 1:protocol:u 2:session:u 3:sequence:u 4:correlation:s 5:expires_ms:u 7:issued_ms:u 10:state:State
  11:birth:Birth 12:welcome:Welcome 13:announce:Announce 14:want:Want 15:manifest:ManifestPart
  16:block_request:BlockRequest 17:block:Block 18:receipt:Receipt 19:refusal:Refusal 20:activated:Activated
  21:offer:Offer 22:fetch:Fetch 23:command:Command 24:command_result:CommandResult 25:transfer_done:TransferDone
  26:parked:Parked 27:event:Event 34:owner_time:OwnerTime
  38:release_part:ReleasePart 50:activation_receipt:ActivationReceipt
State 1:online:b 2:previous_session:u 3:generation:u 4:signature:y
Birth 1:agent_version:s 2:profile:s 3:runtime:s 4:oldest_protocol:u 5:heads:+LineHead 6:seen_journal_length:u
  7:seen_journal_chain:y 8:unreleased:u 9:clock_ms:i 10:clock_error_ms:i 11:generation:u 12:seen_journal_root:y
  14:restores_from:u 15:release_set:y 16:release_policy:s
LineHead 1:line:s 2:sequence:u 3:version_id:y 4:active_version_id:y 5:active_number:u
Welcome 1:server_version:s 2:protocol:u 3:head:SignedHead 4:clock_ms:i 7:known:+LineHead 8:block_bytes:u 9:window:u
  10:start:StartProof 11:restores:+ProvenFact 14:restores_from:u 15:more_restores:b
StartProof 1:length:u 2:hashes:y
ProvenFact 1:position:u 2:entry:y 3:hashes:y 4:approval:RestoreApproval
RestoreApproval 1:text:s 2:hashes:y
SignedHead 1:length:u 2:chain:y 3:root:y 4:public_key:y 5:signature:y
Announce 1:record:y 2:signature:y 3:objects:+SmallObject 4:tensor_bytes:u
SmallObject 1:kind:s 2:data:y
ObjectRef 1:kind:s 2:id:y 3:byte_length:u
Want 1:reason:u 2:version_id:y 3:transfer:s 4:objects:+ObjectRef 5:bases:+y 6:block_bytes:u 7:more:b 8:part:u
  9:parts:u 10:tensor_indices:+u
ManifestPart 1:transfer:s 2:part:u 3:parts:u 4:byte_length:u 5:block_bytes:u 6:block_hashes:y 7:encodings:+Encoding
Encoding 1:code:u 2:byte_length:u
BlockRequest 1:transfer:s 2:blocks:+u 3:manifest_parts:+u
Block 1:index:u 2:data:y
TransferDone 1:transfer:s
Receipt 1:kind:u 2:version_id:y 3:fleet:s 4:device:s 5:session:u 6:position:u 7:head:SignedHead 8:backed_up_to:u
  9:name:s 10:version:u 11:public_key:y 12:signature:y 13:generation:u 14:start:StartProof 15:fact:ProvenFact
Refusal 1:code:s 2:message:s 3:version_id:y 4:transfer:s 5:retry:b 6:retry_after_ms:u
Parked 1:version_id:y 2:expires_ms:u
Activated 1:version_id:y 2:line:s 3:at_ms:i 4:clock_error_ms:i 5:number:u
ActivationReceipt 1:line:s 2:number:u
Event 1:name:s 2:text:s 3:line:s 4:version_id:y
Offer 1:line:s 2:version_id:y 3:record:y 4:objects:+SmallObject 5:signature:y 6:name:s 7:version:u 8:generation:u
  10:release:OfferedRelease 11:staged:b
OfferedRelease 1:name:s 2:manifest:y
OwnerTime 1:statement:s
ReleasePart 1:set:y 2:part:u 3:parts:u 4:data:y
Fetch 1:version_id:y 2:transfer:s 3:objects:+ObjectRef 4:block_bytes:u 5:part:u 6:parts:u 7:codec:u
Command 1:name:s 2:json:s
CommandResult 1:code:s 2:json:s
"""


def _read_tables(text: str) -> dict[str, dict[int, tuple[str, str]]]:
    tables: dict[str, dict[int, tuple[str, str]]] = {}
    table: dict[int, tuple[str, str]] = {}
    for word in text.split():
        number, _, field = word.partition(":")
        if field == "":
            table = tables.setdefault(word, {})
        else:
            name, _, kind = field.partition(":")
            table[int(number)] = (name, kind)
    return tables


_TABLES = _read_tables(_FIELDS)
_ZERO: dict[str, Any] = {"u": 0, "i": 0, "b": False, "s": "", "y": b""}
BODIES = {name for number, (name, _) in _TABLES["Envelope"].items() if number >= 10}


def encode(name: str, message: Mapping[str, Any]) -> bytes:
    """Write a message; members that have their default are left out."""
    parts: list[bytes] = []
    for number, (field, kind) in _TABLES[name].items():
        values = message.get(field)
        if values is None or (not values and kind in _ZERO):
            continue
        one = kind.removeprefix("+")
        for value in values if kind[0] == "+" else [values]:
            parts.append(_encode_field(number, one, value))
    return b"".join(parts)


def _encode_field(number: int, kind: str, value: Any) -> bytes:
    if kind in "uib":
        return varint(number << 3) + varint(int(value) & _MAX_UINT)
    data = value if kind == "y" else value.encode("utf-8") if kind == "s" else encode(kind, value)
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """Write a number as LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode(name: str, data: bytes) -> Message:
    """Read a message, with defaults for what is absent. Fields that are not in the table are ignored."""
    table = _TABLES[name]
    message: Message = {field: [] if kind[0] == "+" else _ZERO.get(kind) for field, kind in table.values()}
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        wire, value, position = _read_value(data, position, tag & 7)
        field, kind = table.get(tag >> 3, ("", ""))
        if kind != "":
            _put(message, field, kind, wire, value)
    return message


def _put(message: Message, field: str, kind: str, wire: int, value: Any) -> None:
    one = kind.removeprefix("+")
    if kind == "+u" and wire == 2:
        position = 0
        while position < len(value):
            number, position = read_varint(value, position)
            message[field].append(number)
    elif (wire == 0) != (one in "uib"):
        raise _malformed(f"{field} has another type")
    elif kind[0] == "+":
        message[field].append(_value(one, value))
    else:
        message[field] = _value(one, value)
    if kind[0] == "+" and len(message[field]) > MAX_LIST:
        raise _malformed(f"{field} has more than {MAX_LIST} entries")


def _value(kind: str, value: Any) -> Any:
    if kind in ("u", "y"):
        return value
    if kind == "b":
        return value != 0
    if kind == "i":
        return value - 2**64 if value >= 2**63 else value
    if kind != "s":
        return decode(kind, value)
    if len(value) > MAX_MESSAGE_BYTES:
        raise _malformed("a text is too long")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed("a text is not UTF-8") from error


def _read_value(data: bytes, position: int, wire: int) -> tuple[int, Any, int]:
    if wire == 0:
        value, position = read_varint(data, position)
        return wire, value, position
    if wire == 2:
        size, position = read_varint(data, position)
    else:
        size = {1: 8, 5: 4}.get(wire, len(data) + 1)
    end = position + size
    if end > len(data):
        raise _malformed("it ends within a field")
    return wire, data[position:end], end


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number as LEB128, and give the position behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MAX_UINT:
                break
            return value, position
    raise _malformed("a number is too long or cut")


def text(value: str) -> bytes:
    """Write a text as signatures contain it: its length in 4 bytes, then UTF-8."""
    data = value.encode("utf-8")
    return struct.pack("<I", len(data)) + data


def _malformed(why: str) -> StemmaError:
    return StemmaError("ENVELOPE_MALFORMED", f"A message cannot be read: {why}. It is ignored.")
