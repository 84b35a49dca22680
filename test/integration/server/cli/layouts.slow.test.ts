/** The engine gives for models of PyTorch what PyTorch gave: `model import --check`. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { it } from "node:test";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";

const vectors = new URL("../../../../../test/vectors/layouts/", import.meta.url);
const vector = (name: string): string => fileURLToPath(new URL(name, vectors));

for (const name of ["mlp", "mobile", "residual", "lstm", "lstm-biases", "gru"])
  it(`the engine's outputs of ${name} are PyTorch's within 1e-5`, async () => {
    const home = await mkdtemp(join(tmpdir(), "stemma-check-"));
    try {
      const { status, stderr } = await runStemmaHere(
        [
          ...["model", "import", vector(`${name}.pt`), "--name", name, "--arch", vector(`${name}.json`)],
          ...["--layout", "pytorch", "--check", vector(`${name}.samples.safetensors`)],
        ],
        { home },
      );
      assert.equal(status, 0, stderr);
    } finally {
      await rm(home, { recursive: true, force: true });
    }
  });
