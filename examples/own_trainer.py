"""An external trainer in PyTorch: a linear model on the samples of a line.

The agent runs it (agent.json, lines.<line>.trainer); docs/own-models.md describes the folders.
Needs: pip install torch safetensors numpy

    python3 own_trainer.py --new FILE INPUTS TARGETS    writes a new model to start from
"""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file


def network(state):
    targets, inputs = state["weight"].shape
    model = torch.nn.Linear(inputs, targets)
    model.load_state_dict(state)
    return model


if sys.argv[1:2] == ["--new"]:
    new = torch.nn.Linear(int(sys.argv[3]), int(sys.argv[4]))
    save_file(new.state_dict(), sys.argv[2])
    sys.exit()

source = Path(os.environ["STEMMA_INPUT"])
job = json.loads((source / "job.json").read_text())
torch.manual_seed(int(job["seed"]) + job["invocation"] & (2**63 - 1))
torch.set_num_threads(job["threads"])
model = network(load_file(source / job["base"]["model"]))


def samples(part):
    tensors = load_file(source / job["samples"][part]["file"])
    return tensors["inputs"].flatten(1), tensors["targets"]


def error(part):
    inputs, targets = samples(part)
    with torch.no_grad():
        return torch.sqrt(torch.nn.functional.mse_loss(model(inputs), targets)).item()


epochs = job["parameters"].get("epochs", 20)
optimizer = torch.optim.Adam(model.parameters(), lr=job["parameters"].get("learningRate", 0.01))
inputs, targets = samples("train")
before = error("heldOut")
for epoch in range(1, epochs + 1):
    for batch in torch.randperm(len(inputs)).split(32):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()
    # A line like this is shown by `stemma agent status`.
    print(json.dumps({"type": "progress", "epoch": epoch, "epochs": epochs, "loss": loss.item()}), flush=True)

# The current directory is the one for results.
save_file(model.state_dict(), "model.safetensors")
metric = {"name": "RMSE", "unit": "", "lowerIsBetter": True, "before": before, "after": error("heldOut")}
Path("metrics.json").write_text(json.dumps({"epochs": epochs, "torch": torch.__version__, "metric": metric}))
