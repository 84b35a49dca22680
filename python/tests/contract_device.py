"""
`stemma.device` as a program, for the contract suite of devices (test/contract/agent/device): `contract_device.py HOME`.

Reads requests as lines of JSON, and answers each with one: `{"result": …}`, or `{"code": …, "message": …}`.
"""

import json
import queue
import signal
import sys
import threading
from pathlib import Path

from stemma.device import Device, enrol
from stemma.errors import StemmaError

asked = queue.SimpleQueue()
is_over = threading.Event()


def answered(work):
    try:
        answer = {"result": work()}
    except StemmaError as error:
        answer = {"code": error.code, "message": str(error)}
    print(json.dumps(answer), flush=True)


def problems(device):
    return [f"{error} [{error.code}]" for error in device.problems]


def save(device, request):
    from stemma.tensor_files import load

    return device.save(request["line"], load(Path(request["file"]), "numpy"))


def act(device, request):
    work = {
        "save": lambda: save(device, request),
        "standing": lambda: device.standing(request["versionId"]),
        "versions": lambda: device.versions(request["line"]),
        "problems": lambda: problems(device),
    }[request["do"]]
    answered(work)


def look(device):
    """Answer what was asked meanwhile: the device's methods are for one thread, and this is called on that."""
    while not asked.empty():
        act(device, asked.get())
    return is_over.is_set()


def read_requests():
    for line in sys.stdin:
        asked.put(json.loads(line))
    is_over.set()


def main():
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    first = json.loads(sys.stdin.readline())
    if first["do"] == "enrol":
        answered(lambda: enrol(sys.argv[1], first["invitation"], certificate=first.get("certificate")))
        return
    device = Device(sys.argv[1])
    answered(lambda: None)
    threading.Thread(target=read_requests, daemon=True).start()
    device.run(lambda: look(device))


main()
