/** PyTorch models with an architecture, on the command line: checked, saved, compared and given back. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, describe, it } from "node:test";
import { fileOfBytes, readSafetensors } from "../../../../shared/tensor/safetensors.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer } from "../../../helpers/test-server.js";

const vectors = new URL("../../../../../test/vectors/layouts/", import.meta.url);
const vector = (name: string): string => fileURLToPath(new URL(name, vectors));

for (const where of ["a home", "its server"])
  describe(`a layout, at ${where}`, () => {
    let folder: string;
    let close: () => Promise<void> = () => Promise.resolve();
    const at = (...names: string[]): string => join(folder, ...names);
    const run = (...args: string[]): Promise<ProgramResult> =>
      runStemmaHere(["model", ...args], { home: at("home") });
    const good = async (...args: string[]): Promise<ProgramResult> => {
      const result = await run(...args);
      assert.equal(result.status, 0, result.stderr);
      return result;
    };
    const refused = async (code: string, ...args: string[]): Promise<void> => {
      const { status, stderr } = await run(...args);
      assert.notEqual(status, 0);
      assert.match(stderr, new RegExp(`\\[${code}\\]`));
    };
    const importing = (name: string, ...args: string[]): string[] => [
      ...["import", vector(`${name}.pt`), "--name", name, "--arch", vector(`${name}.json`)],
      ...["--layout", "pytorch", ...args],
    ];

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), "stemma-layouts-"));
      await mkdir(at("home"));
      if (where === "its server") {
        const server = await startTestServer({ home: at("home"), fleets: ["local"] });
        close = () => server.handle.close();
      }
      await good(...importing("cnn"));
    });
    after(async () => {
      await close();
      await rm(folder, { recursive: true, force: true });
    });

    it("gives the very file back, and a safetensors file with its names", async () => {
      await good("recover", "cnn", "--form", "original", "--file", at("cnn.pt"));
      assert.deepEqual(await readFile(at("cnn.pt")), await readFile(vector("cnn.pt")));
      await good("recover", "cnn", "--layout", "original", "--file", at("cnn.safetensors"));
      const again = await good("import", at("cnn.safetensors"), "--name", "plain", "--dry-run", "-o", "json");
      const pt = await good("import", vector("cnn.pt"), "--name", "plain", "-o", "json");
      await good("recover", "plain", "--file", at("plain.safetensors"));
      const [one, other] = await Promise.all(
        ["cnn.safetensors", "plain.safetensors"].map(async (name) => await readFile(at(name))),
      );
      assert.deepEqual(one, other);
      assert.match(again.stdout + pt.stdout, /"tensors": 9/);
    });

    it("is that of the version from which a model came", async () => {
      await good("recover", "cnn", "--file", at("tuned.safetensors"));
      const bytes = await readFile(at("tuned.safetensors"));
      bytes[bytes.length - 1] = 0x40;
      await writeFile(at("tuned.safetensors"), bytes);
      const arch = ["--arch", vector("cnn.json")];
      await good("import", at("tuned.safetensors"), "--name", "tuned", "--base", "cnn", ...arch);
      const { stdout } = await good(
        "recover",
        "tuned",
        "--layout",
        "original",
        "--file",
        at("child.safetensors"),
      );
      assert.match(stdout, /in the layout of tuned:1\n/);
      const child = await readSafetensors(fileOfBytes(await readFile(at("child.safetensors"))), "child");
      assert.ok(child.tensors.some(({ name }) => name === "norm.num_batches_tracked"));
      await good("merge", "cnn", "tuned", "--name", "mean");
      const mean = ["recover", "mean", "--layout", "original", "--file", at("mean.safetensors")];
      assert.match((await good(...mean)).stdout, /in the layout of mean:1\n/);
      await good("import", at("tuned.safetensors"), "--name", "alone", ...arch);
      await refused("MODEL_PART_MISSING", "recover", "alone", "--layout", "original");
      await refused("MODEL_PART_MISSING", "recover", "alone", "--form", "original");
      await refused("NOT_ALLOWED", "recover", "cnn", "--layout", "original", "--layers", "d");
      await refused(
        "USAGE",
        "recover",
        "cnn",
        "--layout",
        "original",
        "--form",
        "tfjs",
        "--folder",
        at("web"),
      );
    });

    it("is that of the base for a file with the same names, and refused where it does not fit", async () => {
      await good("recover", "cnn", "--layout", "original", "--file", at("next.safetensors"));
      const bytes = await readFile(at("next.safetensors"));
      bytes[bytes.length - 1] = 0x40;
      await writeFile(at("next.safetensors"), bytes);
      for (const layout of [[], ["--layout", "original"]]) {
        await good("import", at("next.safetensors"), "--name", "next", "--base", "cnn", ...layout);
        const args = ["recover", "next", "--layout", "original", "--force", "--file", at("back.safetensors")];
        assert.match((await good(...args)).stdout, /in the layout of next:\d\n/);
        assert.deepEqual(await readFile(at("back.safetensors")), bytes);
        const { stdout } = await good("show", "next", "-o", "json");
        assert.match(stdout, /"kind": "architecture"/);
      }
      const original = ["--name", "no", "--layout", "original"];
      await refused("ARCHITECTURE_MISMATCH", "import", vector("mlp.pt"), ...original, "--base", "cnn");
      await refused("USAGE", "import", at("next.safetensors"), ...original);
      const arch = ["--arch", vector("cnn.json"), "--base", "cnn"];
      await refused("USAGE", "import", at("next.safetensors"), ...original, ...arch);
      await good("import", vector("mlp.pt"), "--name", "opaque");
      await refused("MODEL_PART_MISSING", "import", vector("mlp.pt"), ...original, "--base", "opaque");
      await refused("MODEL_NOT_FOUND", "show", "no");
    });

    it("that lies is refused, and nothing is saved", async () => {
      await good("recover", "cnn", "--file", at("weights.safetensors"));
      const text = `{"format":1,"root":"${"0".repeat(64)}","tensors":[]}`;
      await writeFile(at("stemma.layout"), text);
      const attached = ["--name", "liar", "--attach", at("stemma.layout")];
      const arch = ["--arch", vector("cnn.json")];
      await refused("MODEL_FILE_MALFORMED", "import", at("weights.safetensors"), ...attached, ...arch);
      await refused("NOT_ALLOWED", "import", at("weights.safetensors"), ...attached);
      await refused("MODEL_NOT_FOUND", "show", "liar");
      await refused("USAGE", "import", vector("cnn.pt"), "--name", "liar", "--layout", "pytorch");
      await refused("USAGE", "import", vector("cnn.pt"), "--name", "liar", "--check", vector("cnn.npz"));
      await refused("USAGE", ...importing("cnn", "--tolerance", "-1"));
      await refused("ARCHITECTURE_MISMATCH", ...importing("mlp").with(1, vector("cnn.pt")));
    });
  });

it("is saved where the engine gives the outputs that PyTorch gave, within the tolerance", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-check-"));
  const args = ["model", "import", vector("cnn.pt"), "--name", "cnn", "--layout", "pytorch"];
  const checked = [...args, "--arch", vector("cnn.json"), "--check", vector("cnn.npz")];
  try {
    const wrong = await runStemmaHere([...checked, "--tolerance", "1e-12"], { home });
    assert.match(wrong.stderr, /\[ARCHITECTURE_MISMATCH\]/);
    const right = await runStemmaHere(checked, { home });
    assert.equal(right.status, 0, right.stderr);
    const list = await runStemmaHere(["model", "list", "-o", "name"], { home });
    assert.equal(list.stdout.trim(), "cnn:1");
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});
