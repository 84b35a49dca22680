/** A lease of a transfer against retirement, collection, restart and expiry. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { weightSlots } from "../../../../../shared/model/architecture.js";
import type { Architecture } from "../../../../../shared/model/model.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { startTransfer } from "../../../../../server/operations/models/transfer-model.js";
import { recoverAsStream } from "../../../../../server/operations/models/recover-stream.js";
import {
  keepLeased,
  leaseIn,
  leaseSources,
  requireLeased,
} from "../../../../../server/learning/enumeration/source-lease.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { tinyModel } from "../../../../helpers/agent-fixtures.js";
import { memoryHome, openRepository, seededBytes } from "./harness.js";

const { architecture } = tinyModel("1", 3);

async function save(
  repository: FleetRepository,
  seed: string,
  arch: Architecture = architecture,
): Promise<Hash> {
  const tensors = weightSlots(arch).map(({ dtype, shape }, i) => ({
    dtype,
    shape,
    bytes: seededBytes(`${seed}/${i}`, 4 * shape.reduce((product, extent) => product * extent, 1)),
  }));
  const { summary } = await repository.save(modelSourceOfTensors(arch, tensors), { name: seed });
  return summary.versionId;
}

async function transfer(repository: FleetRepository, model: string): Promise<{ id: string; from: Hash }> {
  const { lease, nearest } = await startTransfer(repository, { model });
  assert.ok(lease !== null && nearest !== null);
  return { id: lease.id, from: nearest.versionId };
}

async function readUnder(
  repository: FleetRepository,
  { id, from }: { id: string; from: Hash },
): Promise<number> {
  const stream = await recoverAsStream(repository, repository.resolve(from), { lease: id });
  let bytes = 0;
  for await (const chunk of stream.chunks) bytes += chunk.length;
  await stream.report;
  return bytes;
}

async function retireAndCollect(repository: FleetRepository, id: Hash, advance: () => void): Promise<void> {
  await repository.retire(id, "not needed");
  // Longer than the store keeps what was just written.
  advance();
  await repository.collect(await repository.planCollection());
}

test("what is leased outlives retirement, collection and restart; not the lease's end", async () => {
  const { home, ports } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  await save(repository, "asks");
  const ancestor = await save(repository, "ancestor");
  const advance = (): void => {
    ports.clock.advance(10 * 60_000);
  };
  advance();
  const held = await transfer(repository, "asks");
  assert.equal(held.from, ancestor);
  await retireAndCollect(repository, ancestor, advance);
  const bytes = await readUnder(repository, held);
  await assert.rejects(repository.recover(ancestor), { code: "MODEL_RETIRED" });
  await repository.close();
  repository = await openRepository(home, "fleet-a");
  await repository.collect(await repository.planCollection());
  assert.equal(await readUnder(repository, held), bytes);
  // The child is saved on the retired ancestor, under the lease only.
  const source = await repository.recover(ancestor, { lease: held.id });
  assert.ok(source.architecture);
  const child = {
    kind: "architecture" as const,
    architecture: source.architecture,
    leaves: source.leaves,
    sources: source.sources,
    names: source.names,
  };
  await assert.rejects(repository.save(child, { name: "child", bases: [ancestor] }), {
    code: "MODEL_RETIRED",
  });
  const { summary, newTensorBytes } = await repository.save(child, {
    name: "child",
    bases: [ancestor],
    lease: held.id,
  });
  assert.equal(newTensorBytes, 0);
  await repository.leases.end(held.id);
  await repository.retire(summary.versionId, "not needed");
  advance();
  await repository.collect(await repository.planCollection());
  for (const { tensor } of source.leaves) assert.ok(!repository.objects.has(tensor));
  await assert.rejects(readUnder(repository, held), { code: "LEASE_UNKNOWN" });
  await repository.close();
});

test("the whole of an ancestor that was collected but for its leased layers is gone, not damaged", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  await save(repository, "asks");
  const ancestor = await save(repository, "ancestor", tinyModel("1", 4).architecture);
  const advance = (): void => {
    ports.clock.advance(10 * 60_000);
  };
  advance();
  const held = await transfer(repository, "asks");
  assert.equal(held.from, ancestor);
  await retireAndCollect(repository, ancestor, advance);
  await assert.rejects(repository.recover(ancestor, { lease: held.id }), {
    code: "MODEL_RETIRED",
    message: /nothing is damaged.*model transfer/,
  });
  assert.ok((await readUnder(repository, held)) > 0);
  await repository.close();
});

test("a lease that expired keeps nothing, also across a restart", async () => {
  const { home, ports } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  await save(repository, "asks");
  const ancestor = await save(repository, "ancestor");
  ports.clock.advance(10 * 60_000);
  const tensors = (await repository.leaves(ancestor)).map(({ tensor }) => tensor);
  const held = await transfer(repository, "asks");
  await repository.retire(ancestor, "not needed");
  ports.clock.advance(61 * 60_000);
  await assert.rejects(readUnder(repository, held), { code: "LEASE_EXPIRED" });
  await repository.close();
  repository = await openRepository(home, "fleet-a");
  await repository.collect(await repository.planCollection());
  for (const tensor of tensors) assert.ok(!repository.objects.has(tensor));
  await repository.close();
});

test("retirement and collection at any moment of a transfer leave a whole child, or another ancestor", async () => {
  for (let delay = 0; delay < 12; delay++) {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    await save(repository, "asks");
    const ancestor = await save(repository, "ancestor");
    await save(repository, "another", tinyModel("1", 4).architecture);
    ports.clock.advance(10 * 60_000);
    const retiring = (async () => {
      for (let turn = 0; turn < delay; turn++) await Promise.resolve();
      await retireAndCollect(repository, ancestor, () => undefined);
    })();
    const held = await transfer(repository, "asks");
    assert.ok((await readUnder(repository, held)) > 0);
    await retiring;
    assert.ok((await readUnder(repository, held)) > 0);
    await repository.close();
  }
});

test("a lease lasts as long as it is kept, also while one training takes more than a day", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const a = await save(repository, "a");
  const folder = await mkdtemp(join(tmpdir(), "stemma-lease-"));
  const lease = await leaseSources(repository, [a], { folder, holder: "a test" });
  const stop = keepLeased(repository, ports.clock, lease);
  for (let hour = 0; hour < 60; hour++) ports.clock.advance(3_600_000);
  assert.ok(repository.leases.covers(lease, a));
  stop();
  for (let hour = 0; hour < 24; hour++) ports.clock.advance(3_600_000);
  assert.ok(!repository.leases.covers(lease, a));
  await assert.rejects(repository.leases.renew(lease, 1), { code: "LEASE_EXPIRED" });
  await rm(folder, { recursive: true });
  await repository.close();
});

test("a lease on several versions is on each of them, and lasts longer when it is renewed", async () => {
  const { home, ports } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const [a, b, c] = [await save(repository, "a"), await save(repository, "b"), await save(repository, "c")];
  const versions = [a, b, c];
  const folder = await mkdtemp(join(tmpdir(), "stemma-lease-"));
  ports.clock.advance(10 * 60_000);
  const lease = await leaseSources(repository, [a, b], { folder, holder: "a test" });
  for (const version of versions)
    await retireAndCollect(repository, version, () => ports.clock.advance(10 * 60_000));
  ports.clock.advance(23 * 3_600_000);
  assert.equal(await leaseIn(repository, folder), lease, "it is renewed");
  ports.clock.advance(23 * 3_600_000);
  for (const version of [a, b]) {
    const { sources } = await repository.recover(version, { lease });
    assert.ok(sources.length > 0);
  }
  requireLeased(repository, [a, b], lease);
  assert.throws(() => requireLeased(repository, versions, lease), { code: "MODEL_RETIRED" });
  await assert.rejects(repository.recover(c, { lease }), { code: "MODEL_RETIRED" });
  ports.clock.advance(2 * 3_600_000);
  assert.equal(await leaseIn(repository, folder), undefined, "it has expired");
  await assert.rejects(leaseSources(repository, [a], { folder, holder: "a test" }), {
    code: "MODEL_RETIRED",
  });
  await rm(folder, { recursive: true });
  await repository.close();
});

test("names the leases that a fleet has too many of, and how one is ended", async () => {
  const { home } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  const versionId = await save(repository, "a");
  const wanted = { versionId, objects: [], tensors: [] };
  const holder = "an evaluation with seed 7: evaluate m from \u001b[31m";
  const { id } = await repository.leases.grant({ ...wanted, holder }, 60_000);
  for (let held = 1; held < 64; held++) await repository.leases.grant(wanted, 120_000);
  await assert.rejects(repository.leases.grant(wanted, 60_000), (error: Error) => {
    assert.ok(
      error.message.includes(id) && error.message.includes("an evaluation with seed 7: evaluate m from"),
    );
    assert.ok(error.message.includes("--end LEASE") && error.message.includes("a transfer"));
    assert.ok(!error.message.includes("\u001b"));
    return true;
  });
  await repository.leases.end(id);
  await repository.leases.grant(wanted, 60_000);
});
