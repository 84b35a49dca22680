/** Holds, rules and recovered files on the command line, without a server and with one. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../shared/tensor/tensor.js";
import { noiseBytes } from "../../../helpers/noise-bytes.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer } from "../../../helpers/test-server.js";

const stemma = (home: string, ...args: readonly string[]): Promise<ProgramResult> =>
  runStemmaHere(args, { home });
async function modelFile(path: string, seed: number): Promise<void> {
  const bytes = noiseBytes(4_000, seed);
  const pieces: Uint8Array[] = [];
  for await (const chunk of safetensorsChunks([
    { name: "w", source: sourceOfTensor({ dtype: "U8", shape: [bytes.length], bytes }) },
  ]))
    pieces.push(Buffer.from(chunk));
  await writeFile(path, Buffer.concat(pieces));
}

test("hold, set, dry run, apply and recover give the same with and without a server", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-retention-"));
  context.after(() => rm(folder, { recursive: true, force: true }));
  const home = join(folder, "home");
  for (let seed = 1; seed <= 4; seed++) {
    await modelFile(join(folder, `${seed}.safetensors`), seed);
    assert.equal(
      (await stemma(home, "model", "import", join(folder, `${seed}.safetensors`), "--name", "soh")).status,
      0,
    );
  }

  assert.equal((await stemma(home, "model", "hold", "soh:2")).status, 2, "a hold without a reason");
  assert.equal((await stemma(home, "model", "hold", "soh:2", "--because", " ")).status, 2);
  assert.match(
    (await stemma(home, "model", "hold", "soh:2", "--because", "incident 7", "--dry-run")).stdout,
    /would hold soh:2/,
  );
  assert.equal((await stemma(home, "model", "hold", "soh:2", "--because", "incident 7")).status, 0);
  const refused = await stemma(home, "model", "rm", "soh:2");
  assert.deepEqual(
    [refused.status, /held by \S+@\S+ \(command\) since .*incident 7.*\[MODEL_HELD\]/s.test(refused.stderr)],
    [1, true],
    refused.stderr,
  );
  assert.match(
    (await stemma(home, "model", "show", "soh:2")).stdout,
    /held +by \S+@\S+ \(command\) since .*: incident 7/,
  );

  const server = await startTestServer({ home, fleets: ["local"] });
  try {
    assert.match((await stemma(home, "model", "list")).stdout, /soh:2 .* held/);
    assert.equal((await stemma(home, "storage", "retention", "set", "90 bananas")).status, 2);
    assert.equal(
      (await stemma(home, "storage", "retention", "set", "nothing", "--line", "models", "--name", "soh"))
        .status,
      2,
    );
    assert.match(
      (await stemma(home, "storage", "retention", "set", "nothing", "--dry-run")).stdout,
      /2 versions would be retired, 2 kept/,
    );
    assert.match((await stemma(home, "storage", "retention", "show")).stdout, /no retention rule is set/);
    assert.equal(
      (await stemma(home, "storage", "retention", "set", "nothing", "--line", "models")).status,
      0,
    );
    const forecast = JSON.parse(
      (await stemma(home, "storage", "retention", "apply", "--dry-run", "-o", "json")).stdout,
    ) as { retire: { version: number }[]; freedBytes: number };
    assert.deepEqual(
      forecast.retire.map(({ version }) => version),
      [1, 3],
    );
    assert.equal(
      (await stemma(home, "storage", "retention", "apply", "-o", "name")).stdout,
      "soh:1\nsoh:3\n",
    );
  } finally {
    await server.handle.close();
  }

  const shown = await stemma(home, "model", "show", "soh:1");
  assert.match(shown.stdout, /^state +retired$/m);
  assert.match(shown.stdout, /^retired +\S+ \S+ by \S+ \(socket\): retention of the line models: /m);
  assert.equal((await stemma(home, "storage", "retention", "unset")).status, 3);
  assert.equal((await stemma(home, "storage", "retention", "unset", "--line", "models")).status, 0);
  assert.match(
    (await stemma(home, "model", "unhold", "soh:2", "--because", "closed")).stdout,
    /let go soh:2, held by/,
  );

  const back = join(folder, "back.safetensors");
  assert.equal((await stemma(home, "model", "recover", "soh:2", "--file", back)).status, 0);
  const kept = await stemma(home, "model", "recover", "soh:4", "--file", back);
  assert.deepEqual([kept.status, /FILE_EXISTS/.test(kept.stderr)], [2, true]);
  assert.deepEqual(await readFile(back), await readFile(join(folder, "2.safetensors")));
  assert.equal((await stemma(home, "model", "recover", "soh:4", "--file", back, "--force")).status, 0);
  assert.deepEqual(await readFile(back), await readFile(join(folder, "4.safetensors")));
});
