#!/usr/bin/env bash
# Builds the wheel of python/, installs it, and checks it: the part `python` of `.ci/full`.
#   packaging/check-python.sh [FOLDER]    FOLDER keeps the wheel and the environment of Python
# Format, lint and types; the tests of the package with and without PyTorch and Keras; the installed wheel against a
# server. PIP_EXTRA_INDEX_URL can name an index whose PyTorch is for CPUs alone. What is left out is said.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-$(mktemp -d)}"
mkdir -p "$out"
out="$(realpath "$out")"
# Only its functions.
# shellcheck source=packaging/steps.sh
. packaging/steps.sh
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

if ! have python3 || ! python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))'; then
  left_out "the Python package, as there is no Python 3.10 or newer"
  exit 0
fi
python="$out/venv/bin/python"
[ -x "$python" ] || python3 -m venv "$out/venv"
fetch() { timeout 900 "$python" -m pip install -q "$@"; }
if ! fetch hatchling ruff mypy pytest numpy safetensors; then
  left_out "the Python package, as its tools cannot be fetched"
  exit 0
fi

say "wheel"
rm -f "$out"/stemma-*.whl
must "$python" -m pip wheel -q --no-deps --no-build-isolation -w "$out" ./python
wheel="$(compgen -G "$out/stemma-*.whl")"
must fetch --no-deps --force-reinstall "$wheel"
must fetch "$wheel[device]"
echo "$(basename "$wheel"), $(stat -c %s "$wheel") bytes"

say "format, lint, types"
must "$python" -m ruff format -q --check --no-cache python
must "$python" -m ruff check -q --no-cache python
(cd python && must "$python" -m mypy --cache-dir "$out/mypy" src)

check() { (cd python && must env LANG=C LC_ALL=C "$python" -m pytest -q --color=no -p no:cacheprovider "$@" tests); }
say "tests"
check
say "tests with PyTorch and Keras"
if fetch torch keras jax; then
  check
  say "a fleet that trains with PyTorch"
  must env PATH="$out/venv/bin:$PATH" node launcher/test.mjs --no-types --tier slow pytorch-fleet
else
  left_out "PyTorch and Keras, which cannot be fetched"
fi

say "the wheel against a server"
must env STEMMA_TEST_PYTHON="$python" node launcher/test.mjs --no-types --tier slow python-client

say "attestations by the reference implementation of Model Signing"
if fetch model-signing pyopenssl; then
  must env STEMMA_TEST_PYTHON="$python" node launcher/test.mjs --no-types --tier slow attest
else
  left_out "the reference implementation of Model Signing, which cannot be fetched"
fi
