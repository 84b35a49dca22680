"""The parts of the second client alone: golden vectors of the repository, and hostile input beside each decoder."""

import hashlib
import json
import random
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stemma.errors import StemmaError
from stemma.identities import object_id, tensor_hasher

pytest.importorskip("cryptography")

from stemma.device import Device, wire
from stemma.device.history import Head, is_consistent, is_included, is_signed
from stemma.device.record import encode_owner_map, owners_of, read_record
from stemma.device.store import Leaf, Store, decode_tree, encode_tree, root_of_leaves
from stemma.device.transfers import BLOCKS_OF_PART, Download, Upload, Wanted

VECTORS = Path(__file__).parents[2] / "test" / "vectors"


def vectors(name):
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "file", ["envelopes.json", "numbered-activations.json", "activation-receipt.json", "owner-time.json"]
)
def test_golden_envelopes_are_read_and_written_alike(file):
    cases = vectors(f"wire/{file}")
    cases = cases if isinstance(cases, list) else [cases]
    assert len(cases) > 0
    for case in cases:
        data = bytes.fromhex(case["hex"])
        message = wire.decode("Envelope", data)
        expected = case["envelope"]
        assert (message["session"], message["sequence"]) == (expected["session"], expected["sequence"])
        assert [name for name in wire.BODIES if message[name] is not None] == [snake(expected["body"]["type"])]
        if expected["body"]["type"] in ("state", "activated", "fetch", "block", "announce"):
            assert wire.decode("Envelope", wire.encode("Envelope", message)) == message


def snake(name):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def mutated(data, chosen):
    data = bytearray(data)
    for _ in range(chosen.randint(1, 4)):
        at = chosen.randrange(len(data)) if data else 0
        choice = chosen.randrange(4)
        if choice == 0 and data:
            data[at] ^= 1 << chosen.randrange(8)
        elif choice == 1:
            data[at:at] = chosen.randbytes(chosen.randint(1, 9))
        elif choice == 2:
            del data[at : at + chosen.randint(1, 9)]
        else:
            data[at : at + 1] = b"\xff" * 10
    return bytes(data)


LEAVES = [Leaf("a", "F32", (2, 3), "1" * 64), Leaf("b/ü", "BF16", (), "2" * 64), Leaf("c", "I64", (0,), "3" * 64)]
RECORD = vectors("identities/save-records-2.json")[0]["text"].encode()
DECODERS = {
    "envelope": (bytes.fromhex(vectors("wire/envelopes.json")[1]["hex"]), lambda data: wire.decode("Envelope", data)),
    "tree": (encode_tree(LEAVES, False), decode_tree),
    "owners": (encode_owner_map([None, "1" * 64, None, "2" * 64]), lambda data: owners_of(data, 4, "0" * 64)),
    "record": (RECORD, read_record),
}


@pytest.mark.parametrize("name", list(DECODERS))
def test_mutated_input_is_read_or_refused_with_a_code(name):
    """2,000 mutations, by a seed that does not change."""
    data, decode = DECODERS[name]
    decode(data)
    chosen = random.Random(name)
    for _ in range(2000):
        try:
            decode(mutated(data, chosen))
        except StemmaError as error:
            assert error.code in ("ENVELOPE_MALFORMED", "TREE_MALFORMED", "OWNER_MAP_INVALID", "RECORD_INVALID")


def test_trees_owner_maps_and_records_are_those_of_the_vectors():
    assert decode_tree(encode_tree(LEAVES, True)) == LEAVES
    for case in vectors("identities/owner-maps.json"):
        own = "f" * 64
        owners = [None if index == 0 else case["owners"][index - 1] for index in case["indices"]]
        assert encode_owner_map(owners).hex() == case["bytes"], case["what"]
        expected = [own if owner is None else owner for owner in owners]
        assert owners_of(bytes.fromhex(case["bytes"]), len(owners), own) == expected
    for case in vectors("identities/trees.json"):
        if case["kind"] == "opaque" and case["treeObject"] is not None:
            leaves = decode_tree(bytes.fromhex(case["treeObject"]))
            assert root_of_leaves(leaves) == case["root"]
            assert object_id("tree", encode_tree(leaves, False)) == case["treeObjectId"]


def record_of(**described):
    """Stand for a record of which a store reads only this."""
    none = {"version": "a" * 64, "name": "soh", "architecture": None, "content_id": "c" * 64}
    return SimpleNamespace(**none | described)


def installed_file(home, name, stated=None):
    content = b"TFL3" * 100
    hasher = tensor_hasher("U8", (len(content),))
    hasher.update(content)
    store = Store(home)
    store.put(hasher.hexdigest(), content)
    metadata = {"stemma.file": name, "stemma.file.sha256": stated or hashlib.sha256(content).hexdigest()}
    names = json.dumps({"format": 1, "leaves": ["stemma.file"], "fileMetadata": metadata}).encode()
    folder = store.install(record_of(), [Leaf("stemma.file", "U8", (len(content),), hasher.hexdigest())], names)
    return folder, content


def test_a_file_that_is_kept_as_it_is_is_installed_under_its_name(tmp_path):
    folder, content = installed_file(tmp_path, "soh.tflite")
    assert (folder / "soh.tflite").read_bytes() == content
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["file"], list(manifest["files"])) == ("soh.tflite", ["soh.tflite"])
    assert (manifest["name"], manifest["contentId"]) == ("soh", "c" * 64)


def test_a_model_with_an_architecture_is_installed_with_it_and_its_names(tmp_path):
    store, network = Store(tmp_path), b'{"format":1}'
    architecture = object_id("architecture", network)
    store.put(architecture, network)
    content = bytes(8)
    hasher = tensor_hasher("F32", (2,))
    hasher.update(content)
    store.put(hasher.hexdigest(), content)
    leaves = [Leaf("layers/000000/0", "F32", (2,), hasher.hexdigest())]
    names = json.dumps({"format": 1, "leaves": ["Kalman/größe"]}).encode()
    folder = store.install(record_of(architecture=architecture), leaves, names)
    assert (folder / "architecture.json").read_bytes() == network
    assert json.loads((folder / "names.json").read_text("utf-8")) == {"layers/000000/0": "Kalman/größe"}
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert sorted(files) == ["architecture.json", "model.safetensors", "names.json"]
    with pytest.raises(StemmaError, match="NAMES_INVALID"):
        store.install(record_of(version="b" * 64, architecture=architecture), leaves, b'{"leaves": []}')


@pytest.mark.parametrize(
    "name", ["../../x", "", ".", "a/b", "a\nb", "n" * 101, "model.safetensors", "Manifest.json", 3, None]
)
def test_a_file_with_a_hostile_name_is_not_installed(tmp_path, name):
    with pytest.raises(StemmaError) as caught:
        installed_file(tmp_path, name)
    assert caught.value.code == "NAMES_INVALID"
    assert not (tmp_path / "versions").exists()


def test_a_file_that_is_not_the_stated_one_is_not_installed(tmp_path):
    with pytest.raises(StemmaError) as caught:
        installed_file(tmp_path, "soh.tflite", "0" * 64)
    assert caught.value.code == "ROOT_MISMATCH"
    assert not (tmp_path / "versions" / ("a" * 64)).exists()


def node(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def split(count):
    return 1 << (count - 1).bit_length() - 1


def root(entries):
    if len(entries) < 2:
        return hashlib.sha256(b"\0" + entries[0]).digest() if entries else hashlib.sha256().digest()
    at = split(len(entries))
    return node(root(entries[:at]), root(entries[at:]))


def path(index, entries):
    if len(entries) < 2:
        return []
    at = split(len(entries))
    if index < at:
        return [*path(index, entries[:at]), root(entries[at:])]
    return [*path(index - at, entries[at:]), root(entries[:at])]


def proof(count, entries, is_complete=True):
    if count == len(entries):
        return [] if is_complete else [root(entries)]
    at = split(len(entries))
    if count <= at:
        return [*proof(count, entries[:at], is_complete), root(entries[at:])]
    return [*proof(count - at, entries[at:], False), root(entries[:at])]


def test_proofs_hold_as_rfc_6962_makes_them_and_no_other_does():
    entries = [struct.pack("<I", number) for number in range(20)]
    for length in range(1, len(entries) + 1):
        head = Head(length, bytes(32), root(entries[:length]))
        for old in range(1, length + 1):
            before = Head(old, bytes(32), root(entries[:old]))
            right = proof(old, entries[:length])
            assert is_consistent(before, head, right)
            assert not is_consistent(before, Head(length, bytes(32), bytes(32)), right)
            assert not is_consistent(Head(old, bytes(32), bytes(32)), head, right)
            assert not is_consistent(before, head, [*right, bytes(32)])
            assert old == length or not is_consistent(before, head, right[:-1])
            assert not is_consistent(head, before, right) or old == length
        for index in range(length):
            right = path(index, entries[:length])
            assert is_included(head, index, entries[index], right)
            assert not is_included(head, index, b"other", right)
            assert not is_included(head, index, entries[index], [*right, bytes(32)])
            assert not is_included(head, length, entries[index], right)


def test_signatures_are_those_of_the_vectors():
    case = vectors("trust/signatures-2.json")
    key = bytes.fromhex(case["publicKey"])
    message = bytes.fromhex(case["receipt"]["message"])
    signature = bytes.fromhex(case["receipt"]["signed"]["signature"])
    assert is_signed(key, message, signature)
    for lie in ((key, message + b"x", signature), (key, message, signature[:-1]), (bytes(31), message, signature)):
        assert not is_signed(*lie)


def transfer(tmp_path, sizes):
    from stemma.identities import tensor_hasher

    source, target = Store(tmp_path / "source"), Store(tmp_path / "target")
    wanted = []
    for number, size in enumerate(sizes):
        content = np.random.default_rng(number).bytes(size)
        hasher = tensor_hasher("U8", (size,))
        hasher.update(content)
        source.put(hasher.hexdigest(), content)
        wanted.append(Wanted("tensor", hasher.hexdigest(), size, "U8", (size,)))
    upload = Upload("t" * 16, [source.path(each.id) for each in wanted], 4096)
    return upload, Download(target, "version", wanted, 0.0), source, target, wanted


def deliver(upload, download, drop, window=8):
    now = 0.0
    for _ in range(500):
        if download.is_complete:
            return
        now += 20.0
        for request in download.requests(window, now):
            assert len(request["blocks"]) <= window
            for part in request["manifest_parts"]:
                if not drop():
                    download.on_manifest(upload.manifest(part), now)
            for index in request["blocks"]:
                if not drop():
                    download.on_block(upload.block(index), now)
    raise AssertionError("it did not end")


@pytest.mark.parametrize("sizes", [[0], [1], [4096], [4096 * (BLOCKS_OF_PART + 1), 0, 5], [3] * 600])
def test_a_transfer_with_losses_gives_the_same_objects(tmp_path, sizes):
    chosen = random.Random(1)
    upload, download, source, target, wanted = transfer(tmp_path, sizes)
    deliver(upload, download, lambda: chosen.random() < 0.2)
    download.keep()
    download.discard()
    for each in wanted:
        assert target.path(each.id).read_bytes() == source.path(each.id).read_bytes()
    assert list((target.home / "spool").iterdir()) == []


@pytest.mark.parametrize(
    "lie",
    [
        {"byte_length": 2**40},
        {"byte_length": 0},
        {"block_bytes": 1},
        {"block_bytes": 2**30},
        {"parts": 2**31},
        {"block_hashes": b""},
        {"part": 7},
        {"encodings": [{"code": 5, "byte_length": 1}]},
    ],
)
def test_manifests_that_do_not_fit_are_refused_before_anything_is_kept(tmp_path, lie):
    upload, download, *_ = transfer(tmp_path, [9000])
    with pytest.raises(StemmaError) as raised:
        download.on_manifest({**upload.manifest(0), **lie}, 0.0)
    assert raised.value.code == "TRANSFER_MANIFEST_INVALID"


def test_a_transfer_goes_on_with_what_its_file_has_and_takes_nothing_damaged(tmp_path):
    upload, download, source, target, wanted = transfer(tmp_path, [4096 * 40, 0, 7])
    left = iter([False] * 14)
    with pytest.raises(StopIteration):
        deliver(upload, download, lambda: next(left), window=1)
    file = target.home / "spool" / download.transfer
    written = [block for block in range(40) if upload._read(block) == file.read_bytes()[4096 * block :][:4096]]
    assert 3 < len(written) < 40
    with file.open("rb+") as opened:
        opened.seek(4096 * written[1])
        opened.write(b"damaged")
    again = Download(target, "version", wanted, 0.0)
    assert again.transfer == download.transfer
    asked = []
    block = upload.block
    upload.block = lambda index: asked.append(index) or block(index)
    deliver(upload, again, lambda: False)
    assert sorted(asked) == [block for block in range(41) if block not in written or block == written[1]]
    again.keep()
    assert target.path(wanted[0].id).read_bytes() == source.path(wanted[0].id).read_bytes()
    assert Download(target, "another", wanted, 0.0).transfer != again.transfer


def test_blocks_that_nobody_asked_for_are_ignored(tmp_path):
    upload, download, *_ = transfer(tmp_path, [9000])
    download.on_block(upload.block(0), 0.0)
    download.on_manifest(upload.manifest(0), 0.0)
    download.on_block(upload.block(0), 0.0)
    assert not download.is_complete
    assert download.requests(8, 0.0)[0]["blocks"] == [0, 1, 2]


def test_a_device_that_serves_goes_on_when_its_disk_is_full():
    class Full(Device):
        def _begin_session(self):
            raise OSError(28, "No space left on device")

    one = Full.__new__(Full)
    nothing = SimpleNamespace(lock=lambda: None, unlock=lambda: None, clear=lambda: None)
    one._state = one._offers = one._reports = nothing
    one._session, one.problems = None, []
    one.run(lambda: len(one.problems) > 0)
    assert [each.code for each in one.problems] == ["DISK_FULL"]


def test_a_device_that_doubts_its_server_keeps_the_session_and_asks_whether_it_is_over():
    class Doubting(Device):
        def _begin_session(self):
            self.begun += 1

        def connect(self, *_):
            pytest.fail("it waits for the server's proof, and asks nothing meanwhile")

        def step(self, *_):
            return True

    one = Doubting.__new__(Doubting)
    nothing = SimpleNamespace(lock=lambda: None, unlock=lambda: None, clear=lambda: None)
    one._state = one._offers = one._reports = nothing
    one._session, one.problems, one.begun = None, [], 0
    one._belief = SimpleNamespace(is_believed=False)
    asked = iter([False] * 5 + [True] * 9)
    one.run(lambda: next(asked))
    assert (one.begun, next(asked)) == (1, True)


@pytest.mark.parametrize(("is_refused", "asks_again", "births"), [(False, False, 2), (True, False, 1), (True, True, 2)])
def test_a_server_that_was_refused_is_asked_again_rarely(is_refused, asks_again, births):
    one = Device.__new__(Device)
    one._belief = SimpleNamespace(is_believed=False, is_refused=is_refused)
    one._asks_again, one._born, sent = asks_again, 0.0, []
    one._send_birth = lambda: sent.append(1)
    one._on_time(6.0)
    one._on_time(601.0)
    assert len(sent) == births
