/** The owner of the demo's fleet over several runs of the demo: one key, each release once, never out of date. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { ChildProcesses } from "../../../../../server/cli/demo/child-processes.js";
import { demoFleet } from "../../../../../server/cli/demo/demo-plan.js";
import { DemoScript } from "../../../../../server/cli/demo/demo-script.js";
import { signReleases } from "../../../../../server/cli/demo/sign-releases.js";
import { Output } from "../../../../../shared/cli/output.js";
import { tinyImport } from "../../../../helpers/agent-fixtures.js";
import { startTestServer } from "../../../../helpers/test-server.js";

const dayMs = 86_400_000;
const dist = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");

test("the demo's owner signs each model once, also after an interrupted run, and renews what will end", async (t) => {
  const server = await startTestServer({ fleets: [demoFleet] });
  const owner = await mkdtemp(join(tmpdir(), "stemma-owner-"));
  const logs = join(owner, "logs");
  await mkdir(logs);
  const processes = new ChildProcesses(logs);
  t.after(async () => {
    await processes.stopAll();
    await server.remove();
    await rm(owner, { recursive: true, force: true });
  });
  const environment = { STEMMA_HOME: server.home, STEMMA_FLEET: demoFleet, STEMMA_CONTEXT: "" };
  const output = new Output("table", new PassThrough(), new PassThrough());
  const script = new DemoScript({ processes, output, programs: dist, environment });
  const { operations } = server.handle;
  const { bytes, architecture } = await tinyImport("1", 3);
  const chunks = (async function* () {
    yield bytes;
  })();
  await operations.import(
    { byteLength: bytes.length, chunks },
    { fleet: demoFleet, name: "base", architecture },
  );
  const releases = () => operations.releases({ fleet: demoFleet });

  await signReleases({ script, folders: { owner } }, ["base:1"]);
  const signed = await releases();
  assert.deepEqual([signed.releases.map(({ name }) => name), signed.versions?.targets], [["base:1"], 2]);
  const key = await readFile(join(owner, "owner.key"), "utf8");
  assert.equal(key.includes((await readFile(join(owner, "passphrase"), "utf8")).trim()), false);
  assert.equal((await stat(join(owner, "owner.key"))).mode & 0o077, 0);

  await signReleases({ script, folders: { owner } }, ["base:1"]);
  assert.deepEqual(await releases(), signed, "nothing was signed again");

  await signReleases({ script, folders: { owner } }, ["base:1"], Date.now() + 80 * dayMs);
  const renewed = await releases();
  assert.ok((renewed.versions?.targets ?? 0) > 2, "what ends within a month was signed again");
  assert.equal(renewed.releases.length, 1);

  const stranger = join(owner, "other");
  await mkdir(stranger);
  await assert.rejects(signReleases({ script, folders: { owner: stranger } }, ["base:1"]), {
    code: "CHECK_FAILED",
  });
});
