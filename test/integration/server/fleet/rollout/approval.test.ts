/** What a rollout needs to be created: an approval where server.json asks for it, and a device that it reaches. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import type { StemmaError } from "../../../../../shared/errors.js";
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
    policy: { wait: true },
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

it("a rollout that reaches no device now is refused with each reason, and with --wait it is not done", async (t) => {
  const server = await startTestServer();
  t.after(() => server.remove());
  const { operations } = server.handle;
  await importBase(server, "base", "1", 8);
  const rollout = { fleet, name: "early", model: "base", line, select: "all" };
  await assert.rejects(operations.createRollout({ ...rollout, start: true }), (error: StemmaError) => {
    assert.equal(error.code, "ROLLOUT_REACHES_NOBODY");
    assert.match(error.message, /its selection means no device/);
    return true;
  });
  await server.enroll("van-1", ["other"]);
  await assert.rejects(operations.createRollout(rollout), (error: StemmaError) => {
    assert.match(error.message, new RegExp(`van-1: has no line ${line}`));
    return true;
  });
  const created = await operations.createRollout({ ...rollout, policy: { wait: true }, start: true });
  const excluded = [{ device: "van-1", because: `has no line ${line}` }];
  assert.deepEqual(created.excluded, excluded);
  assert.deepEqual((await operations.planRollout({ ...rollout, name: "plan" })).excluded, excluded);
  const shown = await operations.rollout({ fleet, rollout: "early", excluded: true });
  assert.deepEqual([shown.phase, shown.excluded], ["running", excluded]);
  assert.match(shown.because, /waits for devices that come later/);
  assert.deepEqual((await operations.rolloutReport({ fleet, rollout: "early" })).excluded, excluded);
});
