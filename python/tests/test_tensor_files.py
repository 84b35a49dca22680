import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load as load_bytes

from stemma.errors import StemmaError
from stemma.tensor_files import load, read_header, root_of_file, stream_of

TENSORS = {
    "z": np.array([[1.5, -0.0], [np.nan, np.inf]], dtype=np.float32),
    "a": np.array(7, dtype=np.int64),
    "empty": np.zeros((0, 3), dtype=np.float16),
    "big": np.arange(6, dtype=">i4").reshape(2, 3),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "flag": np.array([True, False]),
}


def write(path, tensors):
    path.write_bytes(b"".join(stream_of(tensors).pieces()))
    return path


def test_written_tensors_are_read_by_others_and_come_back_in_order(tmp_path):
    stream = stream_of(TENSORS)
    data = b"".join(stream.pieces())
    assert len(data) == stream.length
    other = load_bytes(data)
    back = load(write(tmp_path / "m.safetensors", TENSORS), "numpy")
    assert list(back) == list(TENSORS)
    for name, tensor in TENSORS.items():
        for read in (other[name], back[name]):
            assert read.shape == tensor.shape
            assert read.tobytes() == np.asarray(tensor, dtype=tensor.dtype.newbyteorder("<"), order="C").tobytes()


def test_a_flipped_bit_changes_the_root_and_a_missing_tensor_is_refused(tmp_path):
    path = write(tmp_path / "m.safetensors", TENSORS)
    leaves = [(name, name) for name in sorted(TENSORS)]
    root = root_of_file(path, leaves)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert root_of_file(path, leaves) != root
    with pytest.raises(StemmaError) as raised:
        root_of_file(path, leaves[1:])
    assert raised.value.code == "ROOT_MISMATCH"


def header_of(entries):
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
HOSTILE = [
    b"",
    b"\xff" * 8,
    struct.pack("<Q", 2**62) + b"{}",
    struct.pack("<Q", 2) + b"[]" + b"\0" * 4,
    struct.pack("<Q", 100_000) + b"[" * 100_000,
    header_of({"a": ONE}),
    header_of({"a": ONE}) + b"\0" * 5,
    header_of({"a": ONE, "b": ONE}) + b"\0" * 4,
    header_of({"a": {**ONE, "shape": [-1]}}) + b"\0" * 4,
    header_of({"a": {**ONE, "shape": [1.0]}}) + b"\0" * 4,
    header_of({"a": {**ONE, "shape": [True]}}) + b"\0" * 4,
    header_of({"a": {**ONE, "shape": [1] * 33}}) + b"\0" * 4,
    header_of({"a": {**ONE, "dtype": "F31"}}) + b"\0" * 4,
    header_of({"a": {**ONE, "data_offsets": [0]}}) + b"\0" * 4,
    header_of({"a": {**ONE, "data_offsets": "04"}}) + b"\0" * 4,
    header_of({"a": None}) + b"\0" * 4,
]


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile_files_are_refused(tmp_path, data):
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(StemmaError) as raised:
        read_header(file, path)
    assert raised.value.code == "SAFETENSORS_MALFORMED"


@pytest.mark.parametrize("tensor", [np.array(["a"]), np.array([object()]), [1.0], None, np.longdouble(1)])
def test_what_is_no_tensor_is_refused_by_its_name(tensor):
    with pytest.raises(StemmaError, match="weight") as raised:
        stream_of({"weight": tensor})
    assert raised.value.code == "DTYPE_UNKNOWN"


def test_tensors_of_pytorch_keep_every_bit(tmp_path):
    torch = pytest.importorskip("torch")
    shared = torch.arange(4, dtype=torch.float32)
    tensors = {
        "half": torch.tensor([[1.0, -2.5]]).to(torch.bfloat16).T,
        "eighth": torch.tensor([1.0, 0.5]).to(torch.float8_e4m3fn),
        "scalar": torch.tensor(3),
        "tied": shared,
        "tied too": shared,
        "part": shared[1:3],
        "parameter": torch.nn.Parameter(torch.tensor([float("nan")])),
        "complex": torch.tensor([1 + 2j]).conj(),
    }
    back = load(write(tmp_path / "m.safetensors", tensors), "torch")
    assert list(back) == list(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert back[name].shape == tensor.shape
        dense = tensor.detach().resolve_conj().contiguous().reshape(-1)
        assert torch.equal(back[name].reshape(-1).view(torch.uint8), dense.view(torch.uint8))
    with pytest.raises(StemmaError) as raised:
        stream_of({"sparse": torch.eye(2).to_sparse()})
    assert raised.value.code == "DTYPE_UNKNOWN"
