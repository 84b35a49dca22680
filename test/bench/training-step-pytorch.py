"""The training step of training-step.bench.ts by PyTorch in one thread: python3 FILE SIZE BATCH STEPS.

Prints milliseconds per image as JSON, by the clock and of processor time.
"""
import json
import sys
import time

import torch
from torch import nn

SIZE, BATCH, STEPS = (int(argument) for argument in sys.argv[1:4])
torch.set_num_threads(1)


def convolution(inputs, outputs, kernel, stride, groups=1, activated=True):
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return layers + ([nn.ReLU6(inplace=True)] if activated else [])


class Bottleneck(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        middle = inputs * expansion
        layers = [] if expansion == 1 else convolution(inputs, middle, 1, 1)
        layers += convolution(middle, middle, 3, stride, groups=middle)
        layers += convolution(middle, outputs, 1, 1, activated=False)
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenet_v2():
    layers, channels = convolution(3, 32, 3, 2), 32
    for expansion, filters, repeats, stride in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for i in range(repeats):
            layers.append(Bottleneck(channels, filters, stride if i == 0 else 1, expansion))
            channels = filters
    layers += convolution(channels, 1280, 1, 1) + [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


def times(run):
    run()
    run()
    found = {"wall": [], "processor": []}
    for _ in range(STEPS):
        wall, processor = time.perf_counter(), time.process_time()
        run()
        found["wall"].append((time.perf_counter() - wall) * 1000 / BATCH)
        found["processor"].append((time.process_time() - processor) * 1000 / BATCH)
    return found


model = mobilenet_v2()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.rand(BATCH, 3, SIZE, SIZE)
y = torch.arange(BATCH)


def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def forward():
    with torch.no_grad():
        model(x)


model.train()
result = {"step": times(step), "forwardTraining": times(forward)}
model.eval()
result["forwardEvaluation"] = times(forward)
result["serial"] = result["step"]["wall"]
print(json.dumps(result))
