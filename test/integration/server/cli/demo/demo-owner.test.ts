/** The owner of the demo's fleet over several runs of the demo: one key, each release once, never out of date. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DemoOwner } from "../../../../../server/cli/demo/demo-owner.js";
import { demoFleet } from "../../../../../server/cli/demo/demo-plan.js";
import { tinyImport } from "../../../../helpers/agent-fixtures.js";
import { startTestServer } from "../../../../helpers/test-server.js";

const dayMs = 86_400_000;

test("the demo's owner signs each model once, also after an interrupted run, and renews what will end", async (t) => {
  const server = await startTestServer({ fleets: [demoFleet] });
  const folder = await mkdtemp(join(tmpdir(), "stemma-owner-"));
  t.after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
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

  const first = await DemoOwner.open(operations, folder);
  assert.equal(await first.release("base:1"), "base:1");
  const signed = await releases();
  assert.deepEqual([signed.releases.map(({ name }) => name), signed.versions?.targets], [["base:1"], 2]);
  const key = await readFile(join(folder, "owner.key"), "utf8");
  assert.equal(key.includes((await readFile(join(folder, "passphrase"), "utf8")).trim()), false);
  assert.equal((await stat(join(folder, "owner.key"))).mode & 0o077, 0);

  const second = await DemoOwner.open(operations, folder);
  await second.release("base:1");
  assert.deepEqual(await releases(), signed, "nothing was signed again");

  const later = Date.now() + 80 * dayMs;
  await DemoOwner.open(operations, folder, () => later);
  const renewed = await releases();
  assert.ok(Date.parse(renewed.expires ?? "") > later + 80 * dayMs);
  assert.equal(renewed.releases.length, 1);

  await assert.rejects(DemoOwner.open(operations, join(folder, "other")), { code: "CHECK_FAILED" });
});
