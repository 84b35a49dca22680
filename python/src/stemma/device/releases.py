"""
Signed releases (docs/releases.md): what the fleet's owner signed may be installed, whatever the server offers.

The metadata is that of TUF 1.0: its client's workflow, sections 5.3 to 5.6, over one set of texts. Each step that holds
is kept, also where a later one fails: a root that takes keys away counts at once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from stemma.device.history import is_signed
from stemma.device.record import Record
from stemma.device.store import read_json, write_durably
from stemma.device.wire import Message
from stemma.errors import StemmaError
from stemma.identities import canonical_json

POLICIES = ("required", "accepted", "off")
MAX_BYTES = {"root": 64 * 1024, "timestamp": 16 * 1024, "snapshot": 16 * 1024, "targets": 512 * 1024}
MAX_ROOTS = 32
MAX_KEYS = 32
MAX_TARGETS = 4096
MAX_PARTS = 64
MAX_PART_BYTES = 48 * 1024
MAX_MANIFEST_BYTES = 16 * 1024
MAX_APPROVAL_BYTES = 4 * 1024
MAX_OWNER_TIME_BYTES = 4 * 1024
MAX_DEPTH = 12
_FILE = "releases.json"
_HASH = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ROLES = ("root", "timestamp", "snapshot", "targets")

Metadata = dict[str, Any]


class Releases:
    """What a device trusts of its fleet's releases, durably."""

    def __init__(self, home: Path, pinned: Mapping[str, Any] | None) -> None:
        self._path = home / _FILE
        self.policy = "off" if pinned is None else str(pinned.get("policy", "off"))
        if self.policy not in POLICIES:
            raise StemmaError(
                "ENROLMENT_INVALID", f"The policy of releases {self.policy[:20]} is not known. Enrol again."
            )
        self._pin = "" if pinned is None else str(pinned.get("root", ""))
        self._parts: dict[int, bytes] = {}
        self._collected: tuple[bytes, int] = (b"", 0)
        self._set = b""
        self._trusted: dict[str, Metadata] = {}
        if self.policy != "off" and self._pin != "":
            self._load()

    def _load(self) -> None:
        """Begin at the pinned root, and go on from what was kept; damage costs another set, never trust."""
        self._trusted = {"root": _self_signed(self._pin)}
        if not self._path.exists():
            return
        try:
            kept = read_json(self._path, "RELEASE_METADATA_INVALID")
            root = _self_signed(kept["root"])
            if kept["pin"] != _digest(self._pin) or _version(root) < _version(self._trusted["root"]):
                return
            online = {role: _read(role, kept[role]) for role in _ROLES[1:] if kept.get(role) is not None}
            for role, metadata in online.items():
                _verify(root, role, metadata)
            self._trusted, self._set = {"root": root, **online}, bytes.fromhex(kept["set"])
        except (StemmaError, KeyError, TypeError, ValueError):
            return

    def _keep(self) -> None:
        texts = {role: metadata["text"] for role, metadata in self._trusted.items()}
        kept = {"format": 1, "pin": _digest(self._pin), "set": self._set.hex(), **texts}
        write_durably(self._path, json.dumps(kept).encode("utf-8"))

    def birth(self) -> dict[str, Any]:
        """Give what a birth states of releases."""
        return {} if self.policy == "off" else {"release_set": self._set, "release_policy": self.policy}

    def take(self, part: Message, now_ms: float) -> bool:
        """Take a part of the metadata; true where a set is complete, and all of it holds."""
        if self.policy == "off" or not self._trusted:
            return False
        number, count = part["part"], part["parts"]
        if not 0 < count <= MAX_PARTS or number >= count or len(part["data"]) > MAX_PART_BYTES:
            raise _invalid(f"a part is numbered {number} of {count}, or too long")
        if self._collected != (part["set"], count):
            self._collected, self._parts = (part["set"], count), {}
        self._parts[number] = part["data"]
        if len(self._parts) < count:
            return False
        data = b"".join(self._parts[each] for each in range(count))
        self.forget_parts()
        if hashlib.sha256(data).digest() != part["set"]:
            raise _invalid("the parts do not add up to what was announced")
        try:
            self._set = b""
            self._update(_texts_of(data), now_ms)
            self._set = part["set"]
        finally:
            self._keep()
        return True

    def forget_parts(self) -> None:
        """Drop what is not complete: a new session sends it again."""
        self._collected, self._parts = (b"", 0), {}

    def _update(self, texts: dict[str, Any], now_ms: float) -> None:
        for text in texts["roots"]:
            self._take_root(_read("root", text))
        _require_fresh("root", self._trusted["root"], now_ms)
        above: Metadata | None = None
        for role in _ROLES[1:]:
            above = self._take_online(role, _read(role, texts[role]), above, now_ms)

    def _take_root(self, root: Metadata) -> None:
        """TUF 5.3: a new root is signed by the keys of the one before, and by its own."""
        before = self._trusted["root"]
        if _version(root) <= _version(before):
            return
        if _version(root) != _version(before) + 1:
            raise _invalid(f"root version {_version(root)} does not follow version {_version(before)}")
        _verify(before, "root", root)
        _verify(root, "root", root)
        # TUF 5.3.11: what rotated keys had signed does not count any more, nor its version numbers.
        is_kept = {role: _keys_of(before, role) == _keys_of(root, role) for role in _ROLES[1:]}
        kept = {"timestamp", "snapshot"} if is_kept["timestamp"] and is_kept["snapshot"] else set()
        kept |= {"targets"} if kept and is_kept["targets"] else set()
        self._trusted = {"root": root, **{role: each for role, each in self._trusted.items() if role in kept}}

    def _take_online(self, role: str, metadata: Metadata, above: Metadata | None, now_ms: float) -> Metadata:
        """TUF 5.4 to 5.6: signed, as the role above names it, not older than what is here, and not expired."""
        before = self._trusted.get(role)
        _verify(self._trusted["root"], role, metadata)
        if above is not None:
            _require_listed(role, metadata, _below(above))
        if before is not None:
            older = [(role, _version(before), _version(metadata))] if role == "timestamp" else []
            if role != "targets":
                older.append((f"what {role} names", _below(before)["version"], _below(metadata)["version"]))
            for what, seen, now in older:
                if now < seen:
                    raise _rolled_back(f"{what} has version {now}, and version {seen} was seen already")
            if _version(before) == _version(metadata) and before["signed"] != metadata["signed"]:
                raise _rolled_back(f"{role} version {_version(metadata)} is another than was seen before")
        _require_fresh(role, metadata, now_ms)
        self._trusted[role] = metadata
        return metadata

    def require(self, version: str, is_own: bool, now_ms: float) -> None:
        """Require that a version may be installed, by what is trusted now."""
        if self.policy == "off":
            return
        targets = self._trusted.get("targets")
        revoked = [] if targets is None else targets["signed"].get("x-stemma-revoked", [])
        for one in revoked:
            if one["versionId"] == version:
                raise StemmaError(
                    "RELEASE_REVOKED",
                    f"The fleet's owner revoked the version {version[:12]} ({one['because']}). Assign another.",
                )
        if is_own or self.policy == "accepted":
            return
        if not self._trusted:
            raise _required(version, "this device has no root of releases: enrol it again")
        fresh = self._fresh_targets(now_ms)
        if all(each["custom"]["versionId"] != version for each in fresh["targets"].values()):
            why = f"the fleet's owner has not signed it (targets version {fresh['version']})"
            raise _required(version, f"{why}. Release it with `stemma release create`")

    def require_offered(self, offer: Message, record: Record, is_own: bool, now_ms: float) -> None:
        """Require as `require` of an offer; a manifest that it brings is the signed one, and of this version."""
        self.require(record.version, is_own, now_ms)
        release = offer["release"]
        if self.policy == "off" or not self._trusted or release is None or is_own:
            return
        name, manifest = release["name"], release["manifest"]
        target = self._fresh_targets(now_ms)["targets"].get(name)
        if target is None:
            raise StemmaError("RELEASE_UNKNOWN", f"There is no signed release {name[:128]}. The offer is ignored.")
        if len(manifest) > MAX_MANIFEST_BYTES or len(manifest) != target["length"]:
            raise _mismatch(name, "it has another length")
        if hashlib.sha256(manifest).hexdigest() != target["hashes"]["sha256"]:
            raise _mismatch(name, "it has another hash")
        stated = _json_of(manifest, f"the manifest of {name}", is_plain=False)
        named = (target["custom"]["versionId"], stated.get("versionId"), stated.get("root"))
        if named != (record.version, record.version, record.root):
            raise _mismatch(name, "it is of another version")

    def _fresh_targets(self, now_ms: float) -> dict[str, Any]:
        """Give the list of releases, where it is the newest that is signed, and nothing has expired."""
        missing = [role for role in _ROLES if role not in self._trusted]
        if missing:
            raise _invalid("no signed list of releases has come yet")
        for role in _ROLES:
            _require_fresh(role, self._trusted[role], now_ms)
        for role, above in (("snapshot", "timestamp"), ("targets", "snapshot")):
            if _version(self._trusted[role]) != _below(self._trusted[above])["version"]:
                raise _invalid(f"a newer {role} is signed than has come: the server holds it back, or has lost it")
        signed: dict[str, Any] = self._trusted["targets"]["signed"]
        return signed

    def approved_log(self, fleet: str, text: str) -> tuple[int, bytes]:
        """Give length and root of the journal whose restore the owner signed."""
        if not self._trusted:
            raise _invalid("this device has no root of releases to check a restore with")
        if len(text.encode("utf-8")) > MAX_APPROVAL_BYTES:
            raise _invalid("the owner's statement of a restore is too long")
        approval = _envelope(text, "the owner's statement of a restore")
        signed = approval["signed"]
        if signed.get("_type") != "x-stemma-restored" or signed.get("fleet") != fleet:
            raise _invalid("the owner's statement is not of a restore of this fleet")
        _verify(self._trusted["root"], "targets", approval)
        length, root = signed.get("length"), signed.get("root")
        if not isinstance(length, int) or not isinstance(root, str) or not _HASH.fullmatch(root):
            raise _invalid("the owner's statement of a restore is malformed")
        return length, bytes.fromhex(root)

    def owner_time(self, fleet: str, text: str) -> tuple[int, float]:
        """Give the number of the owner's statement of the time, and that time in milliseconds."""
        if not self._trusted:
            raise _invalid("this device has no root of releases to check the owner's time with: enrol it again")
        if len(text.encode("utf-8", "replace")) > MAX_OWNER_TIME_BYTES:
            raise _invalid("the owner's statement of the time is too long")
        statement = _envelope(text, "the owner's statement of the time")
        signed = statement["signed"]
        if signed.get("_type") != "x-stemma-time" or signed.get("fleet") != fleet:
            raise _invalid("the owner's statement is not of the time of this fleet")
        number, stated = signed.get("number"), signed.get("time")
        is_known = set(signed) == {"_type", "fleet", "number", "time"} and type(number) is int and 0 < number < 2**53
        if not is_known or not isinstance(stated, str) or not _TIME.fullmatch(stated):
            raise _invalid("the owner's statement of the time is malformed")
        _verify(self._trusted["root"], "targets", statement)
        try:
            return number, _ms_of(stated)
        except ValueError as error:
            raise _invalid(f"the owner's statement is not a time: {error}") from error


def _ms_of(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").timestamp() * 1000


def _texts_of(data: bytes) -> dict[str, Any]:
    texts = _json_of(data, "the set", is_plain=False)
    roots = texts.get("roots")
    if not isinstance(roots, list) or not 0 < len(roots) <= MAX_ROOTS:
        raise _invalid(f"the set has no roots, or more than {MAX_ROOTS}")
    if not all(isinstance(text, str) for text in [*roots, *(texts.get(role) for role in _ROLES[1:])]):
        raise _invalid("the set is malformed")
    return texts


def _self_signed(text: str) -> Metadata:
    root = _read("root", text)
    _verify(root, "root", root)
    return root


def _read(role: str, text: Any) -> Metadata:
    """Read metadata of a role, with what is known of its form checked; its signatures are not verified yet."""
    if not isinstance(text, str) or len(text.encode("utf-8", "replace")) > MAX_BYTES[role]:
        raise _invalid(f"{role} is too long")
    metadata = _envelope(text, role)
    signed = metadata["signed"]
    try:
        expires = signed["expires"]
        known = signed["_type"] == role and str(signed["spec_version"]).startswith("1.")
        known = known and type(signed["version"]) is int and 0 < signed["version"] < 2**31
        if not known or not _TIME.fullmatch(expires):
            raise ValueError("its type, version or end")
        metadata["expires_ms"] = _ms_of(expires)
        _check_content(role, signed)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _invalid(f"{role} is malformed: {error}") from error
    return metadata


def _check_content(role: str, signed: dict[str, Any]) -> None:
    if role == "root":
        _check_root(signed)
    elif role != "targets":
        (named,) = signed["meta"].values()
        is_known = type(named["version"]) is int and isinstance(named.get("hashes", {}), dict)
        if list(signed["meta"]) != [f"{_BELOW[role]}.json"] or not is_known:
            raise ValueError("what it names")
    else:
        if "delegations" in signed or len(signed["targets"]) > MAX_TARGETS:
            raise ValueError("it delegates, or names too many releases")
        for each in signed["targets"].values():
            hashes = (each["hashes"]["sha256"], each["custom"]["versionId"])
            if type(each["length"]) is not int or not all(_HASH.fullmatch(one) for one in hashes):
                raise ValueError("a release")
        for each in signed.get("x-stemma-revoked", []):
            if not _HASH.fullmatch(each["versionId"]) or not isinstance(each["because"], str):
                raise ValueError("what was revoked")


def _check_root(signed: dict[str, Any]) -> None:
    """A key's id is the hash of the key: one key cannot count twice under two ids."""
    keys = signed["keys"]
    for id, key in keys.items():
        public = key["keyval"]["public"]
        plain = {"keytype": "ed25519", "keyval": {"public": public}, "scheme": "ed25519"}
        if key != plain or not _HASH.fullmatch(public) or _digest(canonical_json(plain)) != id:
            raise ValueError("a key")
    for role in _ROLES:
        ids, threshold = signed["roles"][role]["keyids"], signed["roles"][role]["threshold"]
        known = len(set(ids)) == len(ids) <= MAX_KEYS and all(id in keys for id in ids)
        if not known or type(threshold) is not int or not 0 < threshold <= len(ids):
            raise ValueError(f"keys or threshold of {role}")


def _envelope(text: str, what: str) -> Metadata:
    try:
        value = _json_of(text.encode("utf-8"), what)
    except UnicodeEncodeError as error:
        raise _invalid(f"{what} is not a text") from error
    signatures, signed = value.get("signatures"), value.get("signed")
    if set(value) != {"signatures", "signed"} or not isinstance(signed, dict) or not isinstance(signatures, list):
        raise _invalid(f"{what} is not a signed statement")
    if not all(isinstance(each, dict) and set(each) == {"keyid", "sig"} for each in signatures):
        raise _invalid(f"signatures of {what} are malformed")
    ids = [each["keyid"] for each in signatures]
    if len(ids) > 2 * MAX_KEYS:
        raise _invalid(f"{what} has more than {2 * MAX_KEYS} signatures")
    if not all(isinstance(id, str) for id in ids) or len(set(ids)) != len(ids):
        raise _invalid(f"{what} has two signatures of one key, or a malformed one")
    return {"signatures": signatures, "signed": signed, "text": text}


def _json_of(data: bytes, what: str, is_plain: bool = True) -> dict[str, Any]:
    """
    Read JSON without twins and fractions.

    With `is_plain` its canonical form is the same in TUF and in RFC 8785.
    """

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in members}) != len(members):
            raise ValueError("a name comes twice")
        return dict(members)

    def refuse(number: str) -> Any:
        raise ValueError(f"{number[:20]} is not a whole number")

    try:
        value = json.loads(data, object_pairs_hook=pairs, parse_float=refuse, parse_constant=refuse)
        if is_plain:
            _check_plain(value, MAX_DEPTH)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{what} cannot be read: {error}") from error
    return value


def _check_plain(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("it is too deep")
    if isinstance(value, str) and _CONTROLS.search(value):
        raise ValueError("a text has control characters")
    if isinstance(value, dict):
        for name, member in value.items():
            if _CONTROLS.search(name) or name[:1] == "$":
                raise ValueError("a name has more than one form")
            _check_plain(member, depth - 1)
    elif isinstance(value, list):
        for member in value:
            _check_plain(member, depth - 1)
    elif type(value) is int and abs(value) > 2**53 - 1:
        raise ValueError("a number is too large")


_BELOW = {"timestamp": "snapshot", "snapshot": "targets"}


def _below(metadata: Metadata) -> dict[str, Any]:
    """Give what a timestamp states of the snapshot, or a snapshot of the targets."""
    (named,) = metadata["signed"]["meta"].values()
    stated: dict[str, Any] = named
    return stated


def _require_listed(role: str, metadata: Metadata, listed: Mapping[str, Any]) -> None:
    """TUF 5.5.2, 5.6.2: each role is the one that the role above it names."""
    data = metadata["text"].encode("utf-8")
    if listed["version"] != _version(metadata) or listed.get("length", len(data)) != len(data):
        raise _invalid(f"{role} version {_version(metadata)} is not the one that is signed for now")
    hashes = listed.get("hashes")
    known = None if hashes is None else {name: hashes[name] for name in ("sha256", "sha512") if name in hashes}
    if known == {} or any(hashlib.new(name, data).hexdigest() != stated for name, stated in (known or {}).items()):
        raise _invalid(f"{role} version {_version(metadata)} has another hash than is signed")


def _verify(root: Metadata, role: str, metadata: Metadata) -> None:
    """Require that as many keys of a role signed as its threshold asks for."""
    keys, wanted = root["signed"]["keys"], root["signed"]["roles"][role]
    message = canonical_json(metadata["signed"])
    signers = 0
    for each in metadata["signatures"]:
        sig = each["sig"] if isinstance(each["sig"], str) and re.fullmatch(r"[0-9a-f]{128}", each["sig"]) else ""
        if each["keyid"] in wanted["keyids"] and sig != "":
            public = bytes.fromhex(keys[each["keyid"]]["keyval"]["public"])
            signers += is_signed(public, message, bytes.fromhex(sig))
    if signers < wanted["threshold"]:
        raise _invalid(
            f"{metadata['signed'].get('_type')} has {signers} of the {wanted['threshold']} signatures of {role} that "
            f"root version {_version(root)} asks for"
        )


def _require_fresh(role: str, metadata: Metadata, now_ms: float) -> None:
    if metadata["expires_ms"] <= now_ms:
        raise StemmaError(
            "RELEASE_EXPIRED",
            f"The metadata of releases has expired: {role} version {_version(metadata)} was valid until "
            f"{metadata['signed']['expires']}. Sign it again with `stemma release refresh`, and publish it.",
        )


def _version(metadata: Metadata) -> int:
    return int(metadata["signed"]["version"])


def _keys_of(root: Metadata, role: str) -> tuple[list[str], int]:
    of = root["signed"]["roles"][role]
    return sorted(of["keyids"]), of["threshold"]


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode("utf-8") if isinstance(content, str) else content).hexdigest()


def _invalid(why: str) -> StemmaError:
    return StemmaError(
        "RELEASE_METADATA_INVALID",
        f"The metadata of releases is not accepted: {why}. Publish what the fleet's owner signed.",
    )


def _rolled_back(why: str) -> StemmaError:
    return StemmaError(
        "RELEASE_ROLLED_BACK", f"The metadata of releases goes back: {why}. Publish what was signed last."
    )


def _required(version: str, why: str) -> StemmaError:
    return StemmaError(
        "RELEASE_REQUIRED",
        f"This device installs only released versions and its own, and {version[:12]} is not among them: {why}.",
    )


def _mismatch(name: str, why: str) -> StemmaError:
    return StemmaError(
        "RELEASE_MISMATCH", f"The manifest of the release {name[:128]} is not the signed one: {why}. Release it again."
    )
