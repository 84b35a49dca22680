"""Writes the Hugging Face files of this folder. Run once, with torch 2.15, peft 0.21 and huggingface_hub; no test runs it."""
import json
import pathlib
import shutil
import tempfile

import torch
from huggingface_hub import save_torch_state_dict
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(24, 12)
        self.last = torch.nn.Linear(12, 4, bias=False)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def shards(folder):
    """Three files and an index, with a tied tensor."""
    torch.manual_seed(35)
    state = {f"layer{i}.weight": torch.randn(4, 5) for i in range(4)}
    state["half"] = torch.randn(6).to(torch.bfloat16)
    state["tied"] = state["layer0.weight"]
    save_torch_state_dict(state, folder, max_shard_size=200, safe_serialization=False)


def adapter(folder, name, dtype, **settings):
    """A base, its adapter and what peft merges them to."""
    torch.manual_seed(35)
    base = Small().to(dtype)
    save_file(base.state_dict(), folder / f"{name}-base.safetensors")
    config = LoraConfig(r=5, lora_alpha=7, target_modules=["first", "last"], **settings)
    model = get_peft_model(base, config, autocast_adapter_dtype=False)
    with torch.no_grad():
        for key, value in model.named_parameters():
            if "lora_B" in key:
                value.copy_(torch.randn(value.shape))
    model.peft_config["default"].base_model_name_or_path = "example/small"
    made = folder / "made"
    model.save_pretrained(made)
    shutil.move(made / "adapter_model.safetensors", folder / f"{name}-adapter.safetensors")
    shutil.move(made / "adapter_config.json", folder / f"{name}-adapter.json")
    save_file(model.merge_and_unload().state_dict(), folder / f"{name}-merged.safetensors")


here = pathlib.Path(__file__).parent
with tempfile.TemporaryDirectory() as made:
    made = pathlib.Path(made)
    shards(made)
    adapter(made, "lora", torch.float32)
    adapter(made, "rslora", torch.bfloat16, use_rslora=True)
    for file in [*made.glob("*.bin*"), *made.glob("*lora-*")]:
        shutil.copy(file, here / file.name)
