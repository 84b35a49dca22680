/** `model card` and `model sbom`: the same on this machine and of a server, written whole or not at all. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readHttpToken } from "../../../../server/interface/http/token.js";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { runStemmaHere, runStemmaWith, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer } from "../../../helpers/test-server.js";

test("documents of a version", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-documents-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const at = (name: string): string => join(folder, name);
  const run = (...args: string[]): Promise<ProgramResult> => runStemmaHere(args, { home: at("home") });
  const refused = async (code: string, ...args: string[]): Promise<void> => {
    const { status, stdout, stderr } = await run(...args);
    assert.notEqual(status, 0);
    assert.equal(stdout, "");
    assert.ok(stderr.includes(code), stderr);
  };
  const { bytes, architecture } = await tinyImport("1");
  await writeFile(at("m.safetensors"), bytes);
  await writeFile(at("model.json"), architecture);
  await writeFile(at("LICENSE"), "free\n");
  const stated = ["--meta", "intended-use=<b>tests</b> `only`", "--attach", at("LICENSE")];
  const model = ["--name", "tiny", "--arch", at("model.json"), ...stated];
  assert.equal((await run("model", "import", at("m.safetensors"), ...model)).status, 0);

  const card = await run("model", "card", "tiny");
  assert.match(card.stdout, /^# Model card: `tiny:1`\n/);
  assert.match(card.stdout, /\n- intended use: `` <b>tests<\/b> `only` `` \(stated\)\n/);
  assert.match(card.stdout, /\n- license, in an attached file `LICENSE`: `[0-9a-f]{64}` \(stated\)\n/);
  assert.match(card.stdout, /\n- recipe: \*not recorded\*\n/);
  const bill = await run("model", "sbom", "tiny");
  assert.deepEqual(await run("model", "sbom", "tiny"), bill);
  assert.deepEqual(
    JSON.parse((await run("model", "sbom", "tiny", "-o", "json")).stdout),
    JSON.parse(bill.stdout),
  );
  const { sections } = JSON.parse((await run("model", "card", "tiny", "-o", "json")).stdout) as {
    readonly sections: readonly unknown[];
  };
  assert.equal(sections.length, 9);

  for (const [kind, printed] of [["card", card] as const, ["sbom", bill] as const]) {
    const made = await run("model", kind, "tiny", "--file", at(kind));
    assert.match(made.stdout, /^wrote the [a-z ]+ of tiny:1 to /);
    assert.equal(await readFile(at(kind), "utf8"), printed.stdout);
    await refused("FILE_EXISTS", "model", kind, "tiny", "--file", at(kind));
    assert.equal((await run("model", kind, "tiny", "--file", at(kind), "--force")).status, 0);
  }

  const server = await startTestServer({ home: at("home"), fleets: ["local"] });
  t.after(() => server.remove());
  const environment = { STEMMA_TOKEN: await readHttpToken(at("home")), STEMMA_FLEET: "local" };
  const remote = (kind: string): Promise<ProgramResult> =>
    runStemmaWith(["model", kind, "tiny", "--server", server.handle.httpUrl], environment);
  // The server may have read the model back meanwhile.
  const withoutState = (text: string): string => text.replace(/^- state: .*$/m, "");
  assert.equal(withoutState((await remote("card")).stdout), withoutState(card.stdout));
  assert.equal((await remote("sbom")).stdout, bill.stdout);
  // Beside the server that has the home.
  assert.equal((await run("model", "sbom", "tiny")).stdout, bill.stdout);

  assert.equal((await run("model", "rm", "tiny:1", "--because", "old")).status, 0);
  await refused("MODEL_RETIRED", "model", "card", "tiny:1");
  await refused("MODEL_RETIRED", "model", "sbom", "tiny:1");
});
