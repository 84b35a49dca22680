"""The examples of README.md, run as they are; one that needs PyTorch only where it is installed."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_again_and_again(number, tmp_path, monkeypatch):
    example = EXAMPLES[number]
    if "import torch" in example and find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    monkeypatch.chdir(tmp_path)
    code = compile(example, f"README.md, example {number + 1}", "exec")
    for _ in range(2):
        exec(code, {"__name__": "example"})
