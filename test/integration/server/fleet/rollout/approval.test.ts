/** `rolloutApproval` of server.json, in a server and in commands on a home that no server has opened. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { importBase, testLine as line } from "../../../../helpers/agent-test-environment.js";
import { startTestServer, testFleet as fleet } from "../../../../helpers/test-server.js";

it("a rollout needs the approval that server.json asks for, with and without a server", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "stemma-approval-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const before = await startTestServer({ home });
  await importBase(before, "base", "1", 8);
  const rollout = (name: string, start: boolean) => ({
    fleet,
    name,
    model: "base",
    line,
    select: "all",
    start,
  });
  await before.handle.operations.createRollout(rollout("before", false));
  await before.handle.close();
  await writeFile(join(home, "server.json"), JSON.stringify({ format: 1, rolloutApproval: true }));

  const local = await openLocalOperations({ home });
  const running = await startTestServer({
    home: await mkdtemp(join(tmpdir(), "stemma-approval-")),
    rolloutApproval: true,
  });
  t.after(() => running.remove());
  await importBase(running, "base", "1", 8);
  for (const operations of [local, running.handle.operations]) {
    await assert.rejects(operations.createRollout(rollout("now", true)), { code: "NOT_ALLOWED" });
    assert.equal((await operations.createRollout(rollout("now", false))).policy.approval, true);
    await assert.rejects(operations.setRollout({ fleet, rollout: "now", phase: "running" }), {
      code: "NOT_ALLOWED",
    });
  }
  // Created before the setting: its policy does not ask for an approval, and starting it does.
  await assert.rejects(local.setRollout({ fleet, rollout: "before", phase: "running" }), {
    code: "NOT_ALLOWED",
  });
  await local.close();
});
