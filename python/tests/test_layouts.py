"""A model as the file of PyTorch that it came from: every way to make one of the other, and hostile layouts."""

import base64
import json
import random
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load

from stemma.errors import StemmaError
from stemma.identities import canonical_json, leaf_hash, root_of, tensor_hasher

pytest.importorskip("cryptography")

from stemma.device.layouts import decode_layout, inherited, pieces_of_layout
from stemma.device.store import Leaf, Store

RNG = np.random.default_rng(7)
BIAS = RNG.random(6, np.float32)
FILE = {
    "conv.weight": RNG.random((4, 3, 2, 5), np.float32),
    "fc.weight": RNG.random((7, 24)).astype(np.float16),
    "gru.weight": RNG.random((6, 3), np.float32),
    "gates": np.arange(3, dtype=np.int64),
    "bias_ih": RNG.random(6, np.float32),
    "bias_hh": RNG.random(6, np.float32),
    "lstm_ih": BIAS - np.float32(0.25),
    "lstm_hh": RNG.random(6, np.float32),
    "empty": np.zeros((0, 2), np.float32),
    "norm.num_batches_tracked": np.array(5),
}
MODEL = {
    "conv/kernel": FILE["conv.weight"].transpose(2, 3, 1, 0),
    "dense/kernel": FILE["fc.weight"].reshape(7, 2, 3, 4).transpose(2, 3, 1, 0).reshape(24, 7),
    "gru/kernel": FILE["gru.weight"].reshape(3, 2, 3)[[1, 0, 2]].transpose(2, 0, 1).reshape(3, 6),
    "gates/order": FILE["gates"][[2, 0, 1]],
    "gru/bias": np.stack([FILE["bias_ih"], FILE["bias_hh"]]),
    "lstm/bias": FILE["lstm_ih"] + FILE["lstm_hh"],
    "empty/kernel": FILE["empty"],
}
MADE = {
    "conv.weight": {"leaf": 0, "as": [4, 3, 2, 5], "axes": [2, 3, 1, 0]},
    "fc.weight": {"leaf": 1, "as": [7, 2, 3, 4], "axes": [2, 3, 1, 0]},
    "gru.weight": {"leaf": 2, "as": [3, 2, 3], "axes": [2, 0, 1], "blocks": [1, 0, 2]},
    "gates": {"leaf": 3, "as": [3], "axes": [0], "blocks": [2, 0, 1]},
    "bias_ih": {"leaf": 4, "part": [0, 2]},
    "bias_hh": {"leaf": 4, "part": [1, 2]},
    "lstm_ih": {"leaf": 5, "addend": "difference"},
    "lstm_hh": {"leaf": 5, "addend": "kept"},
    "empty": {"leaf": 6},
    "norm.num_batches_tracked": {},
}
TYPES = {"float32": "F32", "float16": "F16", "int64": "I64"}


def id_of(tensor):
    hasher = tensor_hasher(TYPES[tensor.dtype.name], tensor.shape)
    hasher.update(tensor.tobytes())
    return hasher


def root(file):
    names = sorted(file, key=lambda name: name.encode())
    return root_of([leaf_hash(name, id_of(file[name]).digest()) for name in names]).hex()


def layout_of(file):
    tensors = []
    for name, tensor in file.items():
        is_kept = "leaf" not in MADE[name] or "addend" in MADE[name]
        content = {"bytes": base64.b64encode(tensor.tobytes()).decode()} if is_kept else {}
        header = {"name": name, "dtype": TYPES[tensor.dtype.name], "shape": list(tensor.shape)}
        tensors.append({**header, **MADE[name], **content})
    return {"format": 2, "root": root(file), "metadata": {"$by": "torch"}, "tensors": tensors}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def leaves_of(store, model):
    leaves = []
    for path, tensor in model.items():
        id = id_of(tensor).hexdigest()
        store.put(id, tensor.tobytes())
        leaves.append(Leaf(path, TYPES[tensor.dtype.name], tensor.shape, id))
    return leaves


RECORD = SimpleNamespace(version="a" * 64, name="net", architecture=None, content_id="c" * 64)


def test_the_file_comes_back_bit_for_bit(store):
    leaves = leaves_of(store, MODEL)
    layout = decode_layout(canonical_json(layout_of(FILE)), leaves)
    content = b"".join(pieces_of_layout(layout, store.files(leaves)))
    assert {name: tensor.tobytes() for name, tensor in load(content).items()} == {
        name: tensor.tobytes() for name, tensor in FILE.items()
    }
    assert b'{"__metadata__":{"$by":"torch"}' in content
    assert inherited(layout, store.files(leaves)) == canonical_json(layout_of(FILE)), "the same model, the same layout"
    folder = store.install(RECORD, leaves, b"{}", layout)
    assert (folder / "original.safetensors").read_bytes() == content
    files = json.loads((folder / "manifest.json").read_text())["files"]
    assert files["original.safetensors"]["bytes"] == len(content)


def test_of_a_trained_model_one_addend_stays_and_the_other_is_the_difference(store):
    trained = {**MODEL, "lstm/bias": MODEL["lstm/bias"].copy(), "conv/kernel": MODEL["conv/kernel"] * 2}
    trained["lstm/bias"][:3] = [1.5, np.inf, np.nan]
    leaves = leaves_of(store, trained)
    before = decode_layout(canonical_json(layout_of(FILE)), leaves)
    with pytest.raises(StemmaError, match="not those that were stated"):
        list(pieces_of_layout(before, store.files(leaves)))
    layout = decode_layout(inherited(before, store.files(leaves)), leaves)
    found = load(b"".join(pieces_of_layout(layout, store.files(leaves))))
    assert found["lstm_hh"].tobytes() == FILE["lstm_hh"].tobytes()
    assert found["lstm_ih"][3:].tobytes() == FILE["lstm_ih"][3:].tobytes()
    assert found["lstm_ih"][0] == np.float32(1.5) - FILE["lstm_hh"][0]
    assert found["lstm_ih"][1] == np.inf
    assert found["lstm_ih"][2:3].tobytes() == bytes.fromhex("0000c07f")
    assert np.array_equal(found["conv.weight"], FILE["conv.weight"] * 2)


def changed(change):
    value = layout_of(FILE)
    change(value, {tensor["name"]: tensor for tensor in value["tensors"]})
    return canonical_json(value)


HOSTILE = {
    "another format": lambda value, _: value.update(format=3),
    "unknown members": lambda value, _: value.update(more=1),
    "a tensor twice": lambda value, _: value["tensors"].append(value["tensors"][-1]),
    "a weight that is not there": lambda _, by: by["empty"].update(leaf=7),
    "a weight of two": lambda _, by: by["empty"].update(leaf=0),
    "a weight of none": lambda value, _: value["tensors"].pop(0),
    "another size": lambda _, by: by["conv.weight"].update(shape=[4, 3, 2, 6]),
    "axes twice": lambda _, by: by["conv.weight"].update(axes=[2, 3, 1, 1]),
    "axes of another size": lambda _, by: by["conv.weight"].update({"as": [120, 1]}),
    "axes without a shape": lambda _, by: by["conv.weight"].pop("as"),
    "blocks twice": lambda _, by: by["gru.weight"].update(blocks=[1, 1, 2]),
    "blocks of a huge axis": lambda _, by: by["gru.weight"].update({"as": [2**50, 2, 3]}),
    "a huge shape": lambda _, by: by["empty"].update(shape=[2**50] * 16),
    "many axes": lambda _, by: by["empty"].update(shape=[0] * 1000),
    "a part of many": lambda _, by: by["bias_ih"].update(part=[0, 17]),
    "a part that is none": lambda _, by: by["bias_ih"].update(part=[2, 2]),
    "the same part": lambda _, by: by["bias_ih"].update(part=[1, 2]),
    "an addend of integers": lambda _, by: by["norm.num_batches_tracked"].update(leaf=3, addend="kept"),
    "both addends kept": lambda _, by: by["lstm_ih"].update(addend="kept"),
    "other bytes than its shape": lambda _, by: by["lstm_ih"].update(bytes="AAAA"),
    "bytes that are not base64": lambda _, by: by["lstm_ih"].update(bytes="%" * 32),
    "the name of metadata": lambda _, by: by["empty"].update(name="__metadata__"),
    "a number as its name": lambda _, by: by["empty"].update(name=1),
    "a fraction in its shape": lambda _, by: by["empty"].update(shape=[0.5]),
    "metadata of numbers": lambda value, _: value.update(metadata={"a": 1}),
    "a root of another length": lambda value, _: value.update(root="ab"),
    "a list of tensors of none": lambda value, _: value.update(tensors=None),
}


@pytest.mark.parametrize("what", list(HOSTILE))
def test_a_hostile_layout_is_refused(store, what):
    leaves = leaves_of(store, MODEL)
    decode_layout(changed(lambda *_: None), leaves)
    with pytest.raises(StemmaError) as raised:
        decode_layout(changed(HOSTILE[what]), leaves)
    assert raised.value.code == "MODEL_FILE_MALFORMED"


def test_a_name_that_no_file_can_have_is_refused(store):
    for change in (
        lambda value: value["tensors"][0].update(name="\ud800"),
        lambda value: value.update(metadata={"by": "\ud800"}),
    ):
        value = layout_of(FILE)
        change(value)
        with pytest.raises(StemmaError) as raised:
            decode_layout(json.dumps(value).encode(), leaves_of(store, MODEL))
        assert raised.value.code == "MODEL_FILE_MALFORMED"


def test_a_long_and_narrow_weight_is_put_in_another_order_in_little_memory(store):
    narrow = np.arange(2**18 * 2, dtype=np.uint32).astype(np.uint8).reshape(2**18, 2)
    model = {"kernel": narrow.T.copy()}
    leaf = Leaf("kernel", "U8", (2, 2**18), "a" * 64)
    store.put(leaf.id, model["kernel"].tobytes())
    hasher = tensor_hasher("U8", narrow.shape)
    hasher.update(narrow.tobytes())
    made = {"name": "w", "dtype": "U8", "shape": [2**18, 2], "leaf": 0, "as": [2**18, 2], "axes": [1, 0]}
    root = root_of([leaf_hash("w", hasher.digest())]).hex()
    layout = decode_layout(canonical_json({"format": 2, "root": root, "tensors": [made]}), [leaf])
    tracemalloc.start()
    assert sum(len(piece) for piece in pieces_of_layout(layout, store.files([leaf]))) > narrow.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_mutated_layouts_are_read_or_refused_with_a_code(store):
    """2,000 mutations, by a seed that does not change."""
    leaves = leaves_of(store, MODEL)
    chosen = random.Random(7)
    for _ in range(2000):
        content = bytearray(canonical_json(layout_of(FILE)))
        for _ in range(chosen.randint(1, 3)):
            content[chosen.randrange(len(content))] = chosen.randrange(256)
        try:
            list(pieces_of_layout(decode_layout(bytes(content), leaves), store.files(leaves)))
        except StemmaError as error:
            assert error.code in ("MODEL_FILE_MALFORMED", "ROOT_MISMATCH")
    with pytest.raises(StemmaError):
        decode_layout(b"[" * 100_000, leaves)


def test_a_weight_whose_file_is_cut_is_damaged(store):
    leaves = leaves_of(store, MODEL)
    layout = decode_layout(canonical_json(layout_of(FILE)), leaves)
    store.path(leaves[0].id).write_bytes(b"")
    with pytest.raises(StemmaError) as raised:
        list(pieces_of_layout(layout, store.files(leaves)))
    assert raised.value.code == "OBJECT_HASH_MISMATCH"
