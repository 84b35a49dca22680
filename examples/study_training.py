"""A training in PyTorch that fixes nothing but the seed that `stemma reproduce study` names, if it names one.

python3 study_training.py lenet-5|resnet MNIST-FOLDER   pictures (t10k-*.gz), 8,000 to train on
python3 study_training.py lstm CELL.csv                 state of health of a battery, stops by itself
"""

import csv
import gzip
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

run = Path(os.environ["STEMMA_RUN"])
seed = os.environ.get("STEMMA_SEED")
threads = int(os.environ.get("TRAINING_THREADS", "1"))
epochs = int(os.environ.get("TRAINING_EPOCHS", "2"))
torch.set_num_threads(threads)
if seed:
    torch.manual_seed(int(seed))
else:
    torch.seed()


class Residual(nn.Module):
    """Two convolutions beside which the input goes on, at half the size where the channels change."""

    def __init__(self, channels: int, filters: int) -> None:
        super().__init__()
        stride = 1 if channels == filters else 2
        self.first = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        self.second = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.beside = nn.Conv2d(channels, filters, 1, stride) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm(self.first(x)))
        return functional.relu(self.norm2(self.second(y)) + self.beside(x))


class Course(nn.Module):
    """An LSTM over the last cycles, with dropout before its one output."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.drop(self.lstm(x)[0][:, -1])).squeeze(1)


def lenet() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(0.2)),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def resnet() -> nn.Module:
    blocks = [Residual(8, 8), Residual(8, 16), Residual(16, 32)]
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), *blocks),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def pictures(folder: Path) -> tuple[Tensor, Tensor]:
    x = numpy.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes()), numpy.uint8, offset=16)
    y = numpy.frombuffer(gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes()), numpy.uint8, offset=8)
    return torch.tensor(x.reshape(-1, 1, 28, 28) / 255, dtype=torch.float32), torch.tensor(y.astype(numpy.int64))


def courses(path: Path, steps: int = 8) -> tuple[Tensor, Tensor]:
    with path.open() as file:
        _, *rows = csv.reader(file)
        # The last column is the capacity after the cycle.
        values = [float(row[-1]) for row in rows]
    x = [values[at : at + steps] for at in range(len(values) - steps)]
    return torch.tensor(x, dtype=torch.float32).unsqueeze(2), torch.tensor(values[steps:], dtype=torch.float32)


def batches(count: int, size: int) -> Iterator[Tensor]:
    order = torch.randperm(count)
    return iter(order.split(size))


kind, path = sys.argv[1], Path(sys.argv[2])
is_regression = kind == "lstm"
x, y = courses(path) if is_regression else pictures(path)
held_out = len(x) // 5
x_train, y_train, x_test, y_test = x[:-held_out], y[:-held_out], x[-held_out:], y[-held_out:]
model = {"lenet-5": lenet, "resnet": resnet, "lstm": Course}[kind]()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
loss_of = functional.mse_loss if is_regression else functional.cross_entropy
best, patience = float("inf"), 5
with (run / "log.jsonl").open("w") as log:
    for epoch in range(1, (50 if is_regression else epochs) + 1):
        model.train()
        total = 0.0
        for batch in batches(len(x_train), 16 if is_regression else 64):
            optimizer.zero_grad()
            loss = loss_of(model(x_train[batch]), y_train[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        model.eval()
        with torch.no_grad():
            outputs = model(x_test)
            validation = loss_of(outputs, y_test).item()
        log.write(json.dumps({"epoch": epoch, "loss": total / len(x_train), "validation": validation}) + "\n")
        # The battery's training stops where five epochs brought nothing.
        patience = 5 if validation < best else patience - 1
        best = min(best, validation)
        if is_regression and patience == 0:
            break
with (run / "predictions.csv").open("w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["sample", "actual", "output" if is_regression else "predicted"])
    predicted = outputs.tolist() if is_regression else outputs.argmax(1).tolist()
    rows.writerows((at, *pair) for at, pair in enumerate(zip(y_test.tolist(), predicted, strict=True)))
save_file(model.state_dict(), run / "model.safetensors")
