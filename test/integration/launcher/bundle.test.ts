/**
 * The bundle that short commands run from does what the single files do: an import, a list and a recovery, an
 * error with its code, and worker threads, whose files are outside the bundle.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const dist = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const programs = [join(dist, "bundle/stemma.cjs"), join(dist, "server/cli/main.js")] as const;
let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-bundle-"));
});
after(() => rm(folder, { recursive: true, force: true }));

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}
function run(program: string, ...args: readonly string[]): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [program, ...args], { cwd: folder }, (error, stdout, stderr) => {
      done({ status: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** A safetensors file with one vector of float32. */
function safetensors(values: readonly number[]): Uint8Array {
  const data = new Uint8Array(Float32Array.from(values).buffer);
  const header = Buffer.from(
    JSON.stringify({ weights: { dtype: "F32", shape: [values.length], data_offsets: [0, data.length] } }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

test("what one writes the other reads, and both give the same bytes", async () => {
  const [bundled, single] = programs;
  const model = join(folder, "model.safetensors");
  await writeFile(model, safetensors([1, 2, 3]));
  const home = ["--home", join(folder, "home")];
  const imported = await run(bundled, "model", "import", model, "--name", "m", ...home);
  assert.equal(imported.status, 0, imported.stderr);
  const lists: Ended[] = [];
  for (const program of programs) lists.push(await run(program, "model", "list", "-o", "json", ...home));
  assert.equal(lists[0]?.stdout, lists[1]?.stdout);
  assert.equal((JSON.parse(lists[0]?.stdout ?? "") as unknown[]).length, 1);
  const checked = await run(single, "storage", "check", ...home);
  assert.equal(checked.status, 0, checked.stderr);
  const recovered = join(folder, "recovered.safetensors");
  const ended = await run(bundled, "model", "recover", "m", "--file", recovered, ...home);
  assert.equal(ended.status, 0, ended.stderr);
  assert.deepEqual((await readFile(recovered)).subarray(-12), (await readFile(model)).subarray(-12));
});
