/** A pull that is killed (-9) at any moment leaves the repository with all of the models or none, and goes on. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { runStemma, spawnStemma } from "../../../../helpers/run-stemma.js";
import { fileOf } from "../../../../integration/server/interface/http/http-requests.js";

const versions = 3;

it("a killed pull leaves all or nothing, and the same command goes on", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-killed-pull-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const [source, target, bundle] = ["source", "target", "m.bundle"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (let version = 1; version <= versions; version++) {
    const model = join(folder, "m.safetensors");
    await writeFile(model, await fileOf({ a: new Uint8Array(200_000).fill(version), b: new Uint8Array(9) }));
    const base = version === 1 ? [] : ["--base", "m"];
    const imported = await runStemma(["model", "import", model, "--name", "m", ...base], { home: source });
    assert.equal(imported.status, 0, imported.stderr);
  }
  const written = await runStemma(["publish", "m", "--file", bundle], { home: source });
  assert.equal(written.status, 0, written.stderr);
  const pull = ["pull", "--file", bundle];
  let killed = 0;
  for (let kill = 0; kill < Number(process.env["STEMMA_TEST_KILLS"] ?? 8); kill++) {
    const child = spawnStemma([...pull, "--home", target], { STEMMA_FLEET: "local" });
    const ended = once(child, "exit");
    // Each time later: from the program's first moments until after its end.
    const timer = setTimeout(() => child.kill("SIGKILL"), 60 * kill ** 1.6);
    const [, signal] = (await ended) as [number | null, string | null];
    clearTimeout(timer);
    if (signal === "SIGKILL") killed++;
    const listed = await runStemma(["model", "list", "-o", "name"], { home: target });
    const count = listed.stdout.split("\n").filter((line) => line !== "").length;
    assert.ok(count === 0 || count === versions, `after kill ${kill} there are ${count}: ${listed.stderr}`);
  }
  assert.ok(killed > 0);
  const pulled = await runStemma(pull, { home: target });
  assert.equal(pulled.status, 0, pulled.stderr);
  const verified = await runStemma(["model", "verify", "m"], { home: target });
  assert.equal(verified.status, 0, verified.stderr);
});
