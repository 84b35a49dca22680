"""What has to agree with other files of the repository."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = REPOSITORY / "python" / "src" / "stemma"


def test_every_code_is_documented():
    page = (REPOSITORY / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if "generated" not in path.parts]
    codes = {code for text in texts for code in re.findall(r'"([A-Z]{3,}(?:_[A-Z]+)*)"', text)}
    variables = {code for code in codes if code.startswith(("STEMMA_", "XDG_"))}
    words = {"GET", "POST", "USAGE", "INTERNAL", "BOOL"} & codes
    codes -= variables | words
    assert len(codes) > 20
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []


def test_the_versions_agree():
    pytest.importorskip("cryptography")
    from stemma.device.state import VERSION

    project = (REPOSITORY / "python" / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{VERSION}"\n' in project


def test_programs_of_devices_load_neither_numpy_nor_the_client():
    pytest.importorskip("paho.mqtt")
    pytest.importorskip("cryptography")
    names = ("numpy", "safetensors", "stemma.client", "cryptography.x509")
    program = f"import stemma.agent, stemma.device, sys; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
