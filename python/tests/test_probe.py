import copy
import json

import numpy as np
import pytest

from stemma.errors import StemmaError

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

from stemma.probe import _figures, probe  # noqa: E402


class Block(torch.nn.Module):
    """A residual block whose sum and ReLU are no modules."""

    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(inplace=True), Block(4), torch.nn.Flatten(), torch.nn.Dropout(0.5),
        torch.nn.Linear(4 * 36, 3),
    )  # fmt: skip


PICTURES = (torch.arange(128) % 17 / 17.0).reshape(2, 1, 8, 8)


def test_figures_are_those_of_the_engines_probe():
    # Computed by figuresOf in shared/determinism/figures.ts.
    tensor = torch.tensor([1, -0.0, np.nan, np.inf, 0.1, 3e38, 1e-40, 2.5, -7, 4, 5, 6]).reshape(3, 4)
    figures = _figures(tensor)
    assert figures["digest"] == "6faf16d3c1bffff0e9895a175032c8356c5cb262af0aa7d357dec31320c47c8e"
    assert (figures["min"], figures["max"], figures["nan"], figures["infinite"]) == (-7, np.inf, 1, 1)
    assert figures["norm"] == 3.0000000054977558e38
    assert figures["sample"] == [1, -0.0, np.inf, 0.10000000149011612, 9.99994610111476e-41, 2.5, 4, 6]
    assert str(figures["sample"][1]) == "-0.0"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_every_type_has_figures_of_its_values(dtype):
    one, other = torch.tensor([0, 1, 1], dtype=dtype), torch.tensor([0, 1, 0], dtype=dtype)
    assert _figures(one) == _figures(one.clone())
    assert _figures(one)["digest"] != _figures(other)["digest"]
    assert _figures(one)["sample"] == [0, 1, 1]


def test_layers_are_modules_and_what_is_between_them(tmp_path):
    summary = probe(network(), PICTURES, tmp_path / "probe.json")
    layers = {layer["name"]: layer for layer in summary["layers"]}
    assert list(layers) == ["0", "1", "2.conv", "2.norm", "2", "3", "4", "5"]
    assert [each["name"] for each in layers["2"]["training"]["operations"]][:2] == [
        "aten.add.Tensor",
        "aten.relu.default",
    ]
    assert layers["2.norm"]["inputs"] == [{"layer": 2, "output": 0}]
    assert layers["3"]["inputs"] == [{"layer": 4, "output": 0}]
    assert [weight["name"] for weight in layers["5"]["backward"]["weights"]] == ["weight", "bias"]
    assert all(layer["backward"]["outputs"][0]["norm"] > 0 for layer in summary["layers"])
    assert layers["4"]["evaluation"]["outputs"] != layers["4"]["training"]["outputs"]
    written = json.loads((tmp_path / "probe.json").read_text())
    assert written["sum"] == summary["sum"]


def test_it_gives_the_same_twice_and_leaves_the_model_and_the_random_state(tmp_path):
    model = network().eval()
    model[2].norm.train()
    before = copy.deepcopy(model.state_dict())
    model[0].weight.grad = torch.ones_like(model[0].weight)
    torch.manual_seed(5)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    one, other = (probe(model, PICTURES, tmp_path / name) for name in ("a", "b"))
    assert torch.equal(torch.rand(1), drawn)
    assert one == other
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert (model.training, model[2].norm.training) == (False, True)
    assert torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight))
    assert model[5].weight.grad is None


def test_a_layer_that_computes_otherwise_is_the_first_that_differs(tmp_path):
    class Shaken(torch.nn.Flatten):
        def forward(self, x):
            return super().forward(x) * (1 + 2**-20)

    model = network()
    plain = probe(model, PICTURES, tmp_path / "a")
    model[3] = Shaken()
    shaken = probe(model, PICTURES, tmp_path / "b")
    pairs = zip(plain["layers"], shaken["layers"], strict=True)
    differing = [a["name"] for a, b in pairs if a["evaluation"]["outputs"] != b["evaluation"]["outputs"]]
    assert differing[0] == "3"


def test_a_module_that_is_called_twice_is_two_layers(tmp_path):
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(self.linear(x))

    first, second = probe(Twice(), torch.ones(1, 3), tmp_path / "a")["layers"]
    assert (first["name"], second["name"], second["sharedWith"]) == ("linear", "linear", 0)
    assert (len(first["backward"]["weights"]), second["backward"]["weights"]) == (2, [])


def test_a_weight_of_no_module_that_runs_goes_to_the_one_around_it(tmp_path):
    class Listed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(3))])

        def forward(self, x):
            return x * self.scales[0]

    (layer,) = probe(Listed(), torch.ones(1, 3), tmp_path / "a")["layers"]
    assert [weight["name"] for weight in layer["backward"]["weights"]] == ["scales.0"]
    assert layer["name"] == "model"


def test_the_folder_of_a_run_takes_it_and_what_is_missing_is_said(tmp_path, monkeypatch):
    model = torch.nn.Linear(2, 1)
    monkeypatch.delenv("STEMMA_RUN", raising=False)
    with pytest.raises(StemmaError, match="Name the file"):
        probe(model, torch.ones(1, 2))
    monkeypatch.setenv("STEMMA_RUN", str(tmp_path))
    probe(model, torch.ones(1, 2))
    assert (tmp_path / "probe.json").stat().st_size > 0
    with pytest.raises(StemmaError, match="one number"):
        probe(model, torch.ones(1, 2), loss=lambda outputs: outputs.expand(2, 2))
    with pytest.raises(StemmaError, match="Name the loss"):
        probe(torch.nn.Flatten(), torch.ones(1, 2, dtype=torch.int64))


def test_complex_and_sparse_values_are_compared_in_full(tmp_path):
    one, other = torch.tensor([1 + 2j]), torch.tensor([1 + 3j])
    assert _figures(one)["digest"] != _figures(other)["digest"]
    assert (_figures(one)["dtype"], _figures(one)["shape"], _figures(one)["sample"]) == ("F32", [1, 2], [1, 2])
    model = torch.nn.Sequential(torch.nn.Embedding(10, 3, sparse=True), torch.nn.Linear(3, 1))
    (weight,) = probe(model, torch.tensor([[1, 2]]), tmp_path / "a")["layers"][0]["backward"]["weights"]
    assert weight["gradient"]["shape"] == [10, 3]


def test_what_a_checkpoint_computes_once_more_is_no_gradient(tmp_path):
    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.b(checkpoint(self.a, x * self.b.weight.sum(), use_reentrant=True))

    layers = probe(Checkpointed(), torch.ones(1, 3), tmp_path / "a")["layers"]
    assert [layer["name"] for layer in layers] == ["a", "b", "model"]
    assert layers[0]["backward"]["outputs"] == []
    assert [weight["name"] for weight in layers[0]["backward"]["weights"]] == ["weight", "bias"]


def test_tensors_that_are_there_before_keep_no_hook_place_or_gradient(tmp_path):
    class Prompt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.prompt = torch.nn.Parameter(torch.ones(3))

        def forward(self):
            return self.prompt

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout, self.own, self.linear = torch.nn.Dropout(0.5), Prompt(), torch.nn.Linear(3, 3)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls = self.calls + 1
            return self.linear(self.dropout(x) + self.own())

    model, x = Counting(), torch.ones(1, 3, requires_grad=True)
    layers = probe(model, x, tmp_path / "a")["layers"]
    assert model.calls.item() == 0
    assert x.grad is None
    assert [(vars(tensor), tensor._backward_hooks or {}) for tensor in (x, model.own.prompt)] == [({}, {})] * 2
    assert [layer["inputs"] for layer in layers if layer["name"] == "dropout"] == [[]]


def test_every_weight_of_a_module_is_listed_and_what_cannot_be_probed_is_said(tmp_path):
    (layer,) = probe(torch.nn.LSTM(2, 2, num_layers=17), torch.ones(1, 2), tmp_path / "a")["layers"]
    assert len(layer["backward"]["weights"]) == 17 * 4

    class Empty(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = torch.nn.Linear(1, 1)

        def forward(self, x):
            return x

    with pytest.raises(StemmaError, match="computes nothing"):
        probe(Empty(), torch.ones(1, 1, requires_grad=True), tmp_path / "a")


def test_weights_whose_names_are_alike_when_cut_keep_their_own_gradients(tmp_path):
    class Alike(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name in ("größe", "grüße"):
                self.register_parameter(name, torch.nn.Parameter(torch.ones(2)))

        def forward(self, x):
            return x * self.größe * 2 + x * self.grüße

    (layer,) = probe(Alike(), torch.ones(1, 2), tmp_path / "a")["layers"]
    first, second = layer["backward"]["weights"]
    assert (first["name"], second["name"]) == ("gr__e", "gr__e:1")
    assert first["gradient"]["digest"] != second["gradient"]["digest"]


def test_a_module_that_raises_an_error_does_not_take_the_place_of_those_around_it(tmp_path):
    class Failing(torch.nn.Module):
        def forward(self, _x):
            raise ValueError

    class Trying(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.failing, self.linear = Failing(), torch.nn.Linear(2, 2)

        def forward(self, x):
            try:
                return self.failing(x)
            except ValueError:
                return self.linear(x)

    layers = probe(torch.nn.Sequential(Trying(), torch.nn.ReLU()), torch.ones(1, 2), tmp_path / "a")["layers"]
    assert [layer["className"] for layer in layers] == ["Linear", "ReLU"]
