"""A measurement program in PyTorch: how wrong a model of pytorch_trainer.py is (docs/pytorch-fleet.md).

The agent runs it (agent.json, lines.<line>.measure) for each model that a rollout offers.
Needs: pip install torch safetensors
"""

import json
import os
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

source = Path(os.environ["STEMMA_INPUT"])
job = json.loads((source / "job.json").read_text())
torch.set_num_threads(job["threads"])
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
model.load_state_dict(load_file(source / job["original"]))
samples = load_file(source / job["samples"]["heldOut"]["file"])
with torch.no_grad():
    errors = (model(samples["inputs"].flatten(1)) - samples["targets"]).abs().mean(1)
Path("measurement.json").write_text(json.dumps({"losses": errors.tolist()}))
