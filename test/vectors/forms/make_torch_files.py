"""Writes the PyTorch files of this folder. Run once, with PyTorch 2.15 and safetensors; no test runs it."""
import collections

import torch
from safetensors.torch import save_file

torch.manual_seed(35)
state = collections.OrderedDict()
state["conv.weight"] = torch.randn(2, 3, 3, 3)
state["conv.channels_last"] = torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)
state["transposed"] = torch.randn(5, 4).t()
state["tied"] = torch.randn(6, 4)
state["view"] = state["tied"][2:5, 1:3]
state["every_second"] = state["tied"][::2]
state["parameter"] = torch.nn.Parameter(torch.tensor([[float("nan"), -0.0], [float("inf"), 1e-42]]))
state["empty"] = torch.zeros(0, 3)
state["scalar"] = torch.tensor(3.5)
for dtype in ("float16", "bfloat16", "float64", "complex64"):
    state[dtype] = torch.randn(3).to(getattr(torch, dtype))
for dtype in ("uint8", "int8", "int16", "int32", "int64"):
    state[dtype] = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
state["bool"] = torch.tensor([True, False, True])
state.epoch_is_ignored = 3

save_file({k: v.detach().clone().contiguous() for k, v in state.items()}, "state.safetensors")
torch.save(state, "state.pt")
torch.save({"a": torch.randn(3, dtype=torch.complex64).conj()}, "conjugated.pt")
torch.save({"a": torch.zeros(1).expand(1000, 1000)}, "expanded.pt")
torch.save({"a": torch.zeros(9).as_strided((3, 9), (0, 1))}, "overlapping.pt")
torch.save(torch.nn.Linear(2, 2), "module.pt")
torch.save({"epoch": 3, "state_dict": torch.nn.Linear(2, 2).state_dict()}, "checkpoint.pt")
