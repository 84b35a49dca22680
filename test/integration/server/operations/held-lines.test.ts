/** A line that a search holds: others are refused, with the holder's name. A rollout that runs refuses a search. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileOf, imports } from "../interface/http/http-requests.js";
import { startTestServer, testFleet as fleet } from "../../../helpers/test-server.js";

const line = "search";
const leaseKey = "ab".repeat(16);

test("work on a line that a search holds is refused, and a search where a rollout runs", async (t) => {
  const server = await startTestServer();
  t.after(() => server.remove());
  const { operations } = server.handle;
  await server.enroll("v1", [line, "soh"]);
  await operations.import(imports(await fileOf({ weight: Uint8Array.of(1, 2, 3) })), { fleet, name: "m" });
  const take = () => operations.leaseLine({ fleet, line, leaseKey, holder: "the search of nas" });
  const rollout = { fleet, rollout: "spring" };
  const create = (name: string, start: boolean) =>
    operations.createRollout({ fleet, name, line, model: "m", select: "all", start, force: true });
  const set = (phase: "running" | "paused") => operations.setRollout({ ...rollout, phase });
  const command = (name: string, body: object) => operations.command({ fleet, device: "v1", name, body });

  const { lease } = await take();
  const held = {
    code: "TRAINING_REFUSED",
    message: new RegExp(`leased since .*the search of nas.*stemma storage leases --end ${lease}`),
  };
  await create("spring", false);
  await assert.rejects(create("summer", true), held);
  await assert.rejects(set("running"), held);
  await assert.rejects(operations.trainOnDevice({ fleet, device: "v1", line }), held);
  for (const name of ["train", "activate", "end-training"]) {
    await assert.rejects(command(name, { line }), held);
    await assert.rejects(command(name, { line: "soh" }), { code: "SERVER_UNREACHABLE" });
  }
  await assert.rejects(command("evaluate", { line }), { code: "SERVER_UNREACHABLE" });
  await assert.rejects(command("train", []), { code: "SERVER_UNREACHABLE" });

  await operations.endLease({ fleet, lease });
  await set("running");
  const refusal = { code: "TRAINING_REFUSED", message: /The rollout spring .*stemma rollout pause spring$/ };
  const again = { fleet, line, leaseKey: "cd".repeat(16), holder: "the search of nas" };
  await assert.rejects(operations.leaseLine(again), refusal);
  await operations.leaseLine({ ...again, line: "search-2" });
  await set("paused");
  await operations.leaseLine(again);
  await assert.rejects(set("running"), { code: "TRAINING_REFUSED" });
});
