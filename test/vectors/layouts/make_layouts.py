"""Writes the models of this folder: state dicts, architectures, inputs and what PyTorch gives for them.

Run once, with PyTorch 2.15, NumPy and safetensors, or with names for these alone; no test runs it.
"""
import json
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

torch.manual_seed(41)


def layer(class_name, name, inputs=None, **config):
    entry = {"class_name": class_name, "config": {"name": name, **config}, "name": name}
    if inputs is not None:
        entry["inbound_nodes"] = [[[each, 0, 0, {}] for each in inputs]] if inputs else []
    return entry


def input_layer(shape, inputs=None):
    return layer("InputLayer", "in", inputs, batch_input_shape=[None, *shape], dtype="float32")


def sequential(shape, *layers):
    return {"class_name": "Sequential", "config": {"name": "net", "layers": [input_layer(shape), *layers]}}


def functional(shape, *layers):
    last = layers[-1]["name"]
    config = {"name": "net", "layers": [input_layer(shape, []), *layers]}
    return {"class_name": "Functional", "config": {**config, "input_layers": [["in", 0, 0]], "output_layers": [[last, 0, 0]]}}


def norm(name, inputs=None):
    return layer("BatchNormalization", name, inputs, axis=-1, epsilon=1e-5)


def conv(name, filters, size=3, inputs=None, **config):
    return layer("Conv2D", name, inputs, filters=filters, kernel_size=size, **{"padding": "same", **config})


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3 * 2 * 3, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        return self.fc(torch.flatten(nn.functional.max_pool2d(x, 2), 1))


class Block(nn.Module):
    """The inverted residual of MobileNetV2, with torchvision's names."""

    def __init__(self, size, expand):
        super().__init__()
        hidden = size * expand
        self.conv = nn.Sequential(
            nn.Sequential(nn.Conv2d(size, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()),
            nn.Sequential(
                nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6()
            ),
            nn.Conv2d(hidden, size, 1, bias=False),
            nn.BatchNorm2d(size),
        )

    def forward(self, x):
        return x + self.conv(x)


class Mobile(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Block(4, 3), Block(4, 3))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 3))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def block(number, before):
    name = lambda part: f"b{number}_{part}"
    relu = lambda each, inputs: layer("ReLU", name(each), inputs, max_value=6)
    return [
        conv(name("e"), 12, 1, [before], use_bias=False), norm(name("en"), [name("e")]), relu("er", [name("en")]),
        layer("DepthwiseConv2D", name("d"), [name("er")], kernel_size=3, padding="same", use_bias=False),
        norm(name("dn"), [name("d")]), relu("dr", [name("dn")]),
        conv(name("p"), 4, 1, [name("dr")], use_bias=False), norm(name("pn"), [name("p")]),
        layer("Add", name("add"), [before, name("pn")]),
    ]


class Residual(nn.Module):
    """Equal convolutions beside each other, which only their names tell apart."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)
        self.left, self.right = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)

    def forward(self, x):
        y = x + self.conv2(torch.relu(self.conv1(x)))
        return self.left(y) + torch.tanh(self.right(y))


class Lstm(nn.Module):
    def __init__(self, one_bias):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 2)
        # One bias, as Keras and the engine have it.
        with torch.no_grad():
            for index in range(2 if one_bias else 0):
                inner, outer = getattr(self.lstm, f"bias_hh_l{index}"), getattr(self.lstm, f"bias_ih_l{index}")
                outer += inner
                inner.zero_()

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4, num_layers=2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.gru(x)[0][:, -1])


lstm = {"units": 4, "activation": "tanh", "recurrent_activation": "sigmoid"}
lstms = sequential(
    [6, 3],
    layer("LSTM", "one", **lstm, return_sequences=True), layer("LSTM", "two", **lstm), layer("Dense", "h", units=2),
)
gru = {**lstm, "reset_after": True}
grus = sequential(
    [6, 3], layer("GRU", "one", **gru, return_sequences=True), layer("GRU", "two", **gru), layer("Dense", "h", units=2)
)
models = {
    "mlp": (
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2)),
        sequential(
            [4],
            *(layer("Dense", f"d{i}", units=5, activation=a) for i, a in enumerate(["relu", "relu", "tanh"])),
            layer("Dense", "out", units=2),
        ),
    ),
    "cnn": (
        Cnn(),
        sequential(
            [4, 6, 2],
            conv("c", 3), norm("n"), layer("Activation", "a", activation="relu"), layer("MaxPooling2D", "p", pool_size=2),
            layer("Flatten", "f"), layer("Dense", "d", units=4),
        ),
    ),
    "mobile": (
        Mobile(),
        functional(
            [5, 5, 3],
            conv("stem", 4, 3, ["in"]), *block(1, "stem"), *block(2, "b1_add"),
            layer("GlobalAveragePooling2D", "pool", ["b2_add"]), layer("Dense", "head", ["pool"], units=3),
        ),
    ),
    "residual": (
        Residual(),
        functional(
            [4, 4, 2],
            conv("conv_a", 2, 3, ["in"], activation="relu"), conv("conv_b", 2, 3, ["conv_a"]),
            layer("Add", "sum", ["in", "conv_b"]), conv("left", 2, 1, ["sum"]),
            conv("right", 2, 1, ["sum"], activation="tanh"), layer("Add", "both", ["left", "right"]),
        ),
    ),
    "lstm": (Lstm(one_bias=True), lstms),
    "lstm-biases": (Lstm(one_bias=False), lstms),
    "gru": (Gru(), grus),
}
shapes = {"mlp": [4], "cnn": [2, 4, 6], "mobile": [3, 5, 5], "residual": [2, 4, 4], "lstm": [6, 3], "lstm-biases": [6, 3], "gru": [6, 3]}
for name in sys.argv[1:] or models:
    model, topology = models[name]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                tensor.data.uniform_(0.5, 1.5)
            module.num_batches_tracked.fill_(7)
    model.eval()
    inputs = torch.randn(8, *shapes[name])
    with torch.no_grad():
        outputs = model(inputs).contiguous()
    torch.save(model.state_dict(), f"{name}.pt")
    with open(f"{name}.json", "w") as file:
        json.dump(topology, file)
    if name == "cnn":
        np.savez("cnn.npz", inputs=inputs.numpy(), outputs=outputs.numpy())
    else:
        save_file({"inputs": inputs, "outputs": outputs}, f"{name}.samples.safetensors")
