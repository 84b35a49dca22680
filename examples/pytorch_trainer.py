"""An external trainer in PyTorch, for a model that was imported with its layers (docs/pytorch-fleet.md).

The agent runs it (agent.json, lines.<line>.trainer). It reads and writes a state dict in PyTorch's own names and axes.
Needs: pip install torch safetensors numpy

    python3 pytorch_trainer.py --new FOLDER    writes a network, its layers as Keras describes them, and samples
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn


def network():
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))


def write_new(folder):
    torch.manual_seed(1)
    model = network()
    torch.save(model.state_dict(), folder / "net.pt")
    inputs = torch.rand(16, 2) * 2 - 1
    with torch.no_grad():
        np.savez(folder / "check.npz", inputs=inputs.numpy(), outputs=model(inputs).numpy())
        model[2].weight.neg_()
    torch.save(model.state_dict(), folder / "worse.pt")
    layers = [
        ("InputLayer", {"batch_input_shape": [None, 2], "dtype": "float32"}),
        ("Dense", {"units": 16, "activation": "tanh"}),
        ("Dense", {"units": 1}),
    ]
    described = [{"class_name": kind, "config": {"name": kind + str(at), **more}} for at, (kind, more) in enumerate(layers)]
    topology = {"class_name": "Sequential", "config": {"name": "net", "layers": described}}
    (folder / "net.json").write_text(json.dumps(topology))
    rows = (torch.rand(400, 2) * 2 - 1).tolist()
    samples = [{"label": 2 * a * b - a, "shape": [2], "values": [a, b]} for a, b in rows]
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)) + "\n")


def train():
    source = Path(os.environ["STEMMA_INPUT"])
    job = json.loads((source / "job.json").read_text())
    torch.manual_seed(int(job["seed"]) + job["invocation"] & (2**63 - 1))
    torch.set_num_threads(job["threads"])
    model = network()
    model.load_state_dict(load_file(source / job["base"]["original"]))

    def samples(part):
        tensors = load_file(source / job["samples"][part]["file"])
        return tensors["inputs"].flatten(1), tensors["targets"]

    def error(part):
        inputs, targets = samples(part)
        with torch.no_grad():
            return nn.functional.l1_loss(model(inputs), targets).item()

    epochs = job["parameters"].get("epochs", 30)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inputs, targets = samples("train")
    before = error("heldOut")
    for epoch in range(1, epochs + 1):
        for batch in torch.randperm(len(inputs)).split(32):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs[batch]), targets[batch])
            loss.backward()
            optimizer.step()
        print(json.dumps({"type": "progress", "epoch": epoch, "epochs": epochs, "loss": loss.item()}), flush=True)
    # The current directory is the one for results.
    torch.save(model.state_dict(), "model.pt")
    metric = {"name": "MAE", "unit": "", "lowerIsBetter": True, "before": before, "after": error("heldOut")}
    Path("metrics.json").write_text(json.dumps({"epochs": epochs, "metric": metric}))


if sys.argv[1:2] == ["--new"]:
    write_new(Path(sys.argv[2]))
else:
    train()
