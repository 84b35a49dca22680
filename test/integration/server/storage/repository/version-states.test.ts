/** What may happen to a version after it was recorded, in which order. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Fact } from "../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { memoryHome, modelOf, openRepository, tensorsOf } from "./harness.js";

test("stored, released, held, tagged, retired: each is accepted in its order and refused outside it", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const {
    summary: { versionId },
  } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  await assert.rejects(repository.release(versionId, "too early"), { code: "NOT_ALLOWED" });
  assert.equal((await repository.confirmStored(versionId)).state, "stored");
  assert.equal((await repository.release(versionId, "stored")).state, "released");
  await repository.tag("soh", "best", versionId);
  assert.equal(repository.resolve("soh:best").versionId, versionId);
  await assert.rejects(repository.tag("soh", "7", versionId), { code: "NAME_INVALID" });
  await assert.rejects(repository.tag("cam", "best", versionId), { code: "FACT_INVALID" });
  await repository.hold(versionId, "incident 12");
  await assert.rejects(repository.retire(versionId, "old"), { code: "MODEL_HELD" });
  await repository.unhold(versionId, "closed");
  await repository.retire(versionId, "old");
  await repository.retire(versionId, "again");
  await assert.rejects(repository.recover(versionId), { code: "MODEL_RETIRED" });
  await assert.rejects(repository.hold(versionId, "late"), { code: "MODEL_RETIRED" });
  assert.throws(() => repository.resolve("soh"), { code: "MODEL_RETIRED" });
  assert.equal(repository.resolve("soh:1").state, "retired");
  assert.deepEqual(repository.versions(), []);
  assert.equal(repository.versions({ includeRetired: true }).length, 1);
  assert.throws(() => repository.resolve("nothing"), { code: "MODEL_NOT_FOUND" });
  await repository.close();
});

test("a version that a device runs or was assigned is not retired; facts about unknown devices are refused", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const {
    summary: { versionId },
  } = await repository.save(modelOf(tensorsOf("m")), { name: "soh" });
  const atMs = ports.clock.now();
  await assert.rejects(
    repository.append({ type: "assigned", atMs, device: "car-1", line: "pack", versionId }),
    { code: "DEVICE_UNKNOWN" },
  );
  await assert.rejects(
    repository.append({
      type: "enrolled",
      atMs,
      device: "a/b",
      publicKey: "k",
      tokenHash: "t",
      profile: "generic",
      lines: [],
    }),
    { code: "NAME_INVALID" },
  );
  const generation = (number: number) => ({
    type: "enrolled" as const,
    atMs,
    device: "car-1",
    generation: number,
    publicKey: "k",
    tokenHash: "t",
    profile: "generic",
    lines: ["pack"],
  });
  // Of two people who enrol a device at the same time, one is told so.
  const enrolments = await Promise.allSettled([
    repository.append(generation(1)),
    repository.append(generation(1)),
  ]);
  assert.deepEqual(
    enrolments.map(({ status }) => status),
    ["fulfilled", "rejected"],
  );
  await repository.append(generation(2));
  assert.equal(repository.device("car-1")?.generation, 2);
  // Concurrent retirement and assignment: whichever comes first, never both.
  const both = await Promise.allSettled([
    repository.append({ type: "assigned", atMs, device: "car-1", line: "pack", versionId }),
    repository.retire(versionId, "race"),
  ]);
  assert.deepEqual(
    both.map(({ status }) => status),
    ["fulfilled", "rejected"],
  );
  assert.equal(repository.assignment("car-1", "pack"), versionId);
  await repository.append({
    type: "activated",
    atMs: atMs + 5,
    versionId,
    device: "car-1",
    line: "pack",
    deviceAtMs: atMs + 1,
    deviceClockErrorMs: 1,
    session: 1,
  });
  assert.equal(repository.device("car-1")?.active["pack"]?.versionId, versionId);
  ports.clock.advance(1000);
  assert.equal(repository.asOf(atMs + 10)[0]?.versionId, versionId);
  const recovered = await repository.recover(versionId);
  assert.equal(recovered.verifiedRoot, repository.get(versionId)?.record.root);
  await repository.append({ type: "revoked", atMs, device: "car-1", because: "sold" });
  await repository.retire(versionId, "now it may go");
  await assert.rejects(repository.append({ type: "made-up", atMs } as unknown as Fact), {
    code: "FACT_INVALID",
  });
  await assert.rejects(repository.append({ type: "recorded", atMs, versionId, name: "x", version: 1 }), {
    code: "FACT_INVALID",
  });
  await repository.close();
});

test("a line has switched to what its enrolment assigned once it runs that or what was trained from it", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const save = async (name: string, bases: readonly Hash[] = []): Promise<Hash> =>
    (await repository.save(modelOf(tensorsOf(name)), { name, bases })).summary.versionId;
  const [first, other] = [await save("first"), await save("other")];
  const tuned = await save("tuned", [first]);
  const atMs = ports.clock.now();
  await repository.append({
    type: "enrolled",
    atMs,
    device: "car-1",
    generation: 1,
    publicKey: "k",
    tokenHash: "t",
    profile: "generic",
    lines: ["pack"],
  });
  await repository.append({ type: "assigned", atMs, device: "car-1", line: "pack", versionId: first });
  const hasSwitched = (versionId: Hash): boolean => repository.hasSwitched("car-1", "pack", versionId);
  const runs = (versionId: Hash, session: number): Promise<unknown> =>
    repository.append({
      type: "activated",
      atMs: atMs + session,
      versionId,
      device: "car-1",
      line: "pack",
      deviceAtMs: atMs + session,
      deviceClockErrorMs: 1,
      session,
    });
  assert.equal(repository.isAssignmentAnswered("car-1", "pack"), true);
  assert.equal(hasSwitched(first), false, "it has run nothing yet");
  await runs(other, 1);
  assert.equal(hasSwitched(first), false, "it runs another model");
  await runs(tuned, 2);
  assert.equal(hasSwitched(first), true);
  assert.equal(hasSwitched(tuned), false, "nobody assigned it");
  await repository.append({
    type: "assigned",
    atMs: atMs + 3,
    device: "car-1",
    line: "pack",
    versionId: other,
  });
  assert.equal(hasSwitched(other), false, "it does not follow yet");
  await runs(other, 4);
  assert.equal(hasSwitched(other), true);
  await repository.close();
});
