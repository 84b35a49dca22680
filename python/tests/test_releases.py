"""Signed releases as a device takes them, and everything that a thief of the server could send instead."""

import hashlib
import json

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from stemma.device.record import Record
from stemma.device.releases import Releases
from stemma.errors import StemmaError
from stemma.identities import canonical_json

NOW = 1_800_000_000_000
LATER, EARLIER = "2027-06-01T00:00:00Z", "2027-01-01T00:00:00Z"
BASE, NEXT = "b" * 64, "c" * 64


def sha(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def key(digit):
    private = Ed25519PrivateKey.from_private_bytes(bytes([digit]) * 32)
    public = {
        "keytype": "ed25519",
        "scheme": "ed25519",
        "keyval": {"public": private.public_key().public_bytes_raw().hex()},
    }
    return private, sha(canonical_json(public)), public


def signed(content, *digits):
    made = [(key(digit)[1], key(digit)[0].sign(canonical_json(content)).hex()) for digit in digits]
    return json.dumps({"signatures": [{"keyid": id, "sig": sig} for id, sig in made], "signed": content})


class Owner:
    """Publishes sets, with members of each role replaced as a test wants."""

    def __init__(self, root=1, online=2, targets=3):
        self.keys = {"root": root, "timestamp": online, "snapshot": online, "targets": targets}

    def root(self, version=1, by=None, expires=LATER, threshold=1):
        roles = {
            role: {"keyids": [key(digit)[1]], "threshold": threshold if role == "targets" else 1}
            for role, digit in self.keys.items()
        }
        keys = {key(digit)[1]: key(digit)[2] for digit in self.keys.values()}
        content = {"_type": "root", "consistent_snapshot": False, "keys": keys, "roles": roles}
        content |= {"spec_version": "1.0", "version": version, "expires": expires}
        return signed(content, *(by or [self.keys["root"]]))

    def set(self, version=1, releases=(BASE,), roots=None, revoked=(), by=None, change=lambda texts: texts, **more):
        custom = {
            f"m:{number}": {"length": 2, "hashes": {"sha256": sha("{}")}, "custom": {"versionId": id}}
            for number, id in enumerate(releases, 1)
        }
        texts = {"roots": roots or [self.root()]}
        below = None
        for role, name in (("targets", None), ("snapshot", "targets"), ("timestamp", "snapshot")):
            content = {"_type": role, "spec_version": "1.0", "version": more.get(role, version)}
            content["expires"] = more.get(f"{role}_expires", LATER)
            if role == "targets":
                content |= {"targets": custom}
                content |= {"x-stemma-revoked": list(revoked)} if revoked else {}
            else:
                content["meta"] = {f"{name}.json": below}
            texts[role] = signed(content, *(by or {}).get(role, [self.keys[role]]))
            below = {
                "version": more.get(role, version),
                "length": len(texts[role]),
                "hashes": {"sha256": sha(texts[role])},
            }
        return json.dumps(change(texts)).encode()


def taken(releases, data, now=NOW):
    digest = hashlib.sha256(data).digest()
    size = 48 * 1024
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return [
        releases.take({"set": digest, "part": number, "parts": len(parts), "data": part}, now)
        for number, part in enumerate(parts)
    ][-1]


@pytest.fixture
def owner():
    return Owner()


@pytest.fixture
def device(tmp_path, owner):
    def begin():
        return Releases(tmp_path, {"policy": "required", "root": owner.root()})

    return begin


def refused(code, work):
    with pytest.raises(StemmaError) as raised:
        work()
    assert raised.value.code == code, raised.value
    return raised.value.message


def test_only_released_versions_are_installed_also_after_a_restart(owner, device):
    one = device()
    refused("RELEASE_METADATA_INVALID", lambda: one.require(BASE, False, NOW))
    assert taken(one, owner.set())
    for again in (one, device()):
        again.require(BASE, False, NOW)
        again.require(NEXT, True, NOW)
        assert "targets version 1" in refused("RELEASE_REQUIRED", lambda again=again: again.require(NEXT, False, NOW))
        assert again.birth()["release_set"] == hashlib.sha256(owner.set()).digest()
    refused("RELEASE_EXPIRED", lambda: one.require(BASE, False, NOW + 365 * 86_400_000))
    revoked = [{"name": "m:1", "versionId": BASE, "because": "wrong labels"}]
    taken(one, owner.set(2, [NEXT], revoked=revoked))
    for is_own in (False, True):
        assert "wrong labels" in refused("RELEASE_REVOKED", lambda is_own=is_own: one.require(BASE, is_own, NOW))
    one.require(NEXT, False, NOW)


def test_a_key_that_is_not_the_owners_signs_nothing(owner, device):
    for version, role in enumerate(("timestamp", "snapshot", "targets"), 1):
        one, forged = device(), owner.set(version, by={role: [9]})
        refused("RELEASE_METADATA_INVALID", lambda one=one, forged=forged: taken(one, forged))
        refused("RELEASE_METADATA_INVALID", lambda one=one: one.require(BASE, False, NOW))
    # All of a set by another owner, whose root is not the pinned one, nor follows it.
    other = Owner(7, 8, 9)
    refused("RELEASE_METADATA_INVALID", lambda: taken(device(), other.set()))
    refused("RELEASE_METADATA_INVALID", lambda: taken(device(), other.set(roots=[owner.root(), other.root(2)])))
    # Two signatures by one key are one.
    twice = json.loads(owner.root())
    twice["signatures"] *= 2
    refused("RELEASE_METADATA_INVALID", lambda: taken(device(), owner.set(roots=[json.dumps(twice)])))


def test_older_lists_other_lists_of_a_number_and_lists_that_are_held_back_are_refused(owner, device):
    one = device()
    taken(one, owner.set(3, [NEXT]))
    for again in (one, device()):
        refused("RELEASE_ROLLED_BACK", lambda again=again: taken(again, owner.set(2)))
        refused("RELEASE_ROLLED_BACK", lambda again=again: taken(again, owner.set(3)))
        refused("RELEASE_REQUIRED", lambda again=again: again.require(BASE, False, NOW))
        assert again.birth()["release_set"] == b""

    # A newer timestamp with the snapshot of before: a newer list is held back, so nothing follows from the older one.
    def held_back(texts):
        return {**texts, "snapshot": json.loads(owner.set(3, [NEXT]))["snapshot"]}

    refused("RELEASE_METADATA_INVALID", lambda: taken(one, owner.set(4, change=held_back)))
    refused("RELEASE_METADATA_INVALID", lambda: one.require(NEXT, False, NOW))


def test_expired_lists_are_refused(owner, device):
    for version, role in enumerate(("timestamp", "snapshot", "targets"), 1):
        expired = owner.set(version, **{f"{role}_expires": EARLIER})
        refused("RELEASE_EXPIRED", lambda expired=expired: taken(device(), expired))
    one = device()
    ended = owner.root(2, expires=EARLIER)
    refused("RELEASE_EXPIRED", lambda: taken(one, owner.set(roots=[owner.root(), ended])))


def test_a_changed_root_needs_the_keys_of_before_and_takes_away_what_those_it_drops_signed(owner, device):
    one = device()
    taken(one, owner.set(5))
    new = Owner(4, 5, 6)
    refused("RELEASE_METADATA_INVALID", lambda: taken(one, new.set(roots=[owner.root(), new.root(2, [4])])))
    refused("RELEASE_METADATA_INVALID", lambda: taken(one, new.set(roots=[owner.root(), new.root(3, [1, 4])])))
    one.require(BASE, False, NOW)
    rotated = [owner.root(), new.root(2, [1, 4])]
    # The root counts, though nothing else of the set does.
    refused("RELEASE_METADATA_INVALID", lambda: taken(one, owner.set(6, roots=rotated)))
    for again in (one, device()):
        refused("RELEASE_METADATA_INVALID", lambda again=again: again.require(BASE, False, NOW))
        assert taken(again, new.set(1, roots=rotated))
        again.require(BASE, False, NOW)
    # What the pinned root alone would allow does not come back, also with a damaged file: the server sends the rest.
    refused("RELEASE_METADATA_INVALID", lambda: taken(one, owner.set(7)))


def test_sets_that_are_torn_or_malformed_are_refused(owner, device):
    one, data = device(), owner.set()
    digest = hashlib.sha256(data).digest()
    part = {"set": digest, "part": 0, "parts": 1, "data": data}
    lies = [{"parts": 0}, {"parts": 65}, {"part": 1}, {"data": bytes(48 * 1024 + 1)}, {"set": bytes(32)}]
    for lie in lies:
        refused("RELEASE_METADATA_INVALID", lambda lie=lie: one.take({**part, **lie}, NOW))
    for text in (b"[]", b"{", b'{"roots":[]}', b'{"roots":[1]}', b"[" * 100_000, b'{"roots":["{}"]}'):
        refused("RELEASE_METADATA_INVALID", lambda text=text: taken(one, text))
    root = json.loads(owner.root())
    for change in ({"version": 1.0}, {"version": True}, {"expires": "never"}, {"keys": {}}, {"_type": "targets"}):
        text = json.dumps({**root, "signed": {**root["signed"], **change}})
        refused("RELEASE_METADATA_INVALID", lambda text=text: taken(one, owner.set(roots=[text])))
    assert not one.take({**part, "parts": 2, "data": data[:7]}, NOW)
    assert taken(one, data)


def test_a_manifest_is_the_signed_one_and_of_the_offered_version(owner, device):
    one = device()
    record = Record(BASE, b"", "d" * 64, [], {})
    manifest = canonical_json({"versionId": BASE, "root": "d" * 64})

    taken(one, owner.set())
    offer = {"release": {"name": "m:1", "manifest": manifest}}
    refused("RELEASE_MISMATCH", lambda: one.require_offered(offer, record, False, NOW))
    offer["release"]["name"] = "m:2"
    refused("RELEASE_UNKNOWN", lambda: one.require_offered(offer, record, False, NOW))
    offer["release"] = {"name": "m:1", "manifest": b"{}"}
    refused("RELEASE_MISMATCH", lambda: one.require_offered(offer, record, False, NOW))
    one.require_offered({"release": None}, record, False, NOW)


def test_the_pinned_policy_decides(tmp_path, owner):
    for policy in ("accepted", "off"):
        one = Releases(tmp_path / policy, {"policy": policy, "root": owner.root()})
        one.require(NEXT, False, NOW)
        assert one.birth().get("release_policy") == (None if policy == "off" else policy)
    refused("ENROLMENT_INVALID", lambda: Releases(tmp_path, {"policy": "never", "root": owner.root()}))
    refused("RELEASE_METADATA_INVALID", lambda: Releases(tmp_path, {"policy": "required", "root": owner.root(by=[9])}))
    without = Releases(tmp_path, {"policy": "required"})
    refused("RELEASE_REQUIRED", lambda: without.require(NEXT, False, NOW))


def test_texts_that_cannot_be_written_and_hashes_of_another_form_are_refused(owner, device):
    """By a server that adds a signature, or has the keys of the roles online: a device must not end by it."""

    def with_surrogate(texts):
        snapshot = json.loads(texts["snapshot"])
        snapshot["signatures"].append({"keyid": "SURROGATE", "sig": ""})
        return {**texts, "snapshot": json.dumps(snapshot).replace("SURROGATE", "\ud800")}

    refused("RELEASE_METADATA_INVALID", lambda: taken(device(), owner.set(change=with_surrogate)))

    for hashes in (["sha256"], "sha256", 7):

        def with_hashes(texts, hashes=hashes):
            stated = json.loads(texts["timestamp"])["signed"]
            stated["meta"]["snapshot.json"]["hashes"] = hashes
            return {**texts, "timestamp": signed(stated, owner.keys["timestamp"])}

        refused("RELEASE_METADATA_INVALID", lambda change=with_hashes: taken(device(), owner.set(change=change)))

    def with_many(texts):
        snapshot = json.loads(texts["snapshot"])
        snapshot["signatures"] += [{"keyid": sha(str(number)), "sig": ""} for number in range(65)]
        return {**texts, "snapshot": json.dumps(snapshot)}

    assert "more than 64 signatures" in refused(
        "RELEASE_METADATA_INVALID", lambda: taken(device(), owner.set(change=with_many))
    )


def stated(*by, fleet="f", number=1, time="2027-03-01T00:00:00Z", kind="x-stemma-time", **more):
    return signed({"_type": kind, "fleet": fleet, "number": number, "time": time, **more}, *(by or [3]))


def test_the_owners_time_is_taken_where_the_keys_of_targets_signed_it(tmp_path):
    one = Releases(tmp_path, {"policy": "required", "root": Owner().root()})
    assert one.owner_time("f", stated(number=7)) == (7, 1_803_859_200_000)
    for text in [
        stated(2),
        stated(fleet="other"),
        stated(number=0),
        stated(number=True),
        stated(number="1"),
        stated(time="2027-03-01"),
        stated(time="2027-13-01T00:00:00Z"),
        stated(kind="targets"),
        stated(more=1),
        stated() + " " * 4096,
        "[]",
        "{",
        "\ud800",
    ]:
        with pytest.raises(StemmaError) as caught:
            one.owner_time("f", text)
        assert caught.value.code == "RELEASE_METADATA_INVALID", text
    with pytest.raises(StemmaError, match="has no root"):
        Releases(tmp_path, None).owner_time("f", stated())
