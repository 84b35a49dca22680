"""A device's own software that takes part in trials on live inputs; docs/live-trials.md explains it.

It runs a linear model ("weight" and "bias", as own_trainer.py makes them) on live inputs, and beside it the
version that the agent has on trial. Needs only Python.
It ends when the agent closes the connection; the service that runs it starts it again.

    python3 live_trial.py AGENT_HOME LINE < inputs.jsonl      {"values": [...], "label": ...} a line
"""

import json
import socket
import struct
import sys
import time
from pathlib import Path

ASK_SECONDS = 30  # How often it asks what is on trial.
BATCH = 20  # Observations of one request.


class Agent:
    """The agent's socket for samples: one request and one answer a line."""

    def __init__(self, home):
        path = json.loads((Path(home) / "run.json").read_text())["samples"]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.lines = self.socket.makefile("r", encoding="utf-8")

    def ask(self, **request):
        # JSON has no NaN: what is not finite is reported as a failure (see compare).
        self.socket.sendall(json.dumps(request, allow_nan=False).encode() + b"\n")
        answer = json.loads(self.lines.readline())
        if not answer["ok"]:
            raise RuntimeError(f'{answer["message"]} [{answer["code"]}]')
        return answer["result"]


def load(folder):
    """The rows of the weight and the bias of a safetensors file of float32."""
    data = (Path(folder) / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])

    def numbers(name):
        begin, end = header[name]["data_offsets"]
        return struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin : 8 + size + end])

    rows, columns = header["weight"]["shape"]
    weight = numbers("weight")
    return [weight[row * columns : (row + 1) * columns] for row in range(rows)], numbers("bias")


def run(model, values):
    """The outputs and how many milliseconds they took. Raises ValueError where one is not a number."""
    start = time.perf_counter()
    weight, bias = model
    outputs = [sum(w * x for w, x in zip(row, values)) + b for row, b in zip(weight, bias)]
    if any(each != each or abs(each) == float("inf") for each in outputs):
        raise ValueError("an output is not a number")
    return outputs, 1000 * (time.perf_counter() - start)


def compare(running, trial, values, label):
    """What both make of one input, as the agent takes it."""
    ran = {}
    for name, model in (("running", running), ("trial", trial)):
        try:
            ran[name] = run(model, values)
        except Exception as error:
            print(f"{name}: {error}", file=sys.stderr)
    if len(ran) < 2:
        return {"failed": "both" if not ran else "trial" if "running" in ran else "running"}
    outputs = {name: result for name, (result, _) in ran.items()}
    milliseconds = {name: ms for name, (_, ms) in ran.items()}
    return {"outputs": outputs, "label": label, "milliseconds": milliseconds}


def main(home, line):
    agent = Agent(home)
    asked, models, ids, observations = 0.0, {}, None, []
    for text in sys.stdin:
        live = json.loads(text)
        if ids is None and (asked == 0 or time.monotonic() - asked > ASK_SECONDS):
            asked = time.monotonic()
            state = agent.ask(do="trial", line=line)
            if state["trial"] is not None and state["running"] is not None:
                ids = {name: state[name]["versionId"] for name in ("running", "trial")}
                try:
                    models = {name: load(state[name]["folder"]) for name in ids}
                except Exception as error:
                    # A version that cannot be loaded fails on every input.
                    print(f"load: {error}", file=sys.stderr)
                    models = {"running": load(state["running"]["folder"]), "trial": None}
        # Here the software does what it does with the outputs of the running model. Those of the version on
        # trial are only compared.
        if ids is None:
            continue
        observations.append(compare(models["running"], models["trial"], live["values"], live["label"]))
        if len(observations) < BATCH:
            continue
        try:
            answer = agent.ask(do="observe", line=line, **ids, observations=observations)
            print(f'{answer["compared"]} of {answer["wanted"]} live inputs compared', file=sys.stderr)
            if answer["isComplete"]:
                ids = None
        except RuntimeError as error:
            # Such as a trial that ended; it asks again what is on trial.
            print(error, file=sys.stderr)
            ids = None
        observations = []


main(*sys.argv[1:3])
