/** Storage tiers over both interfaces: commands on a home, and through the server that holds it. */
import assert from "node:assert/strict";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { connectOperations } from "../../../../server/interface/http/client.js";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import type { ServerOperations } from "../../../../server/interface/api/server-operations.js";
import { exitStatus } from "../../../../shared/errors.js";
import { safetensorsChunks } from "../../../../shared/tensor/safetensors.js";
import { sourceOfTensor, type Tensor } from "../../../../shared/tensor/tensor.js";
import { memberOf } from "../../../helpers/coded-tensors.js";
import { hasCode } from "../../../helpers/object-stores.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";
import { startTestServer, tensorBytes, testFleet } from "../../../helpers/test-server.js";
import { temporaryFolder } from "../storage/repository/harness.js";

const tensors: readonly Tensor[] = [0, 1, 2].map((member) => memberOf(1, member, [40, 60]));

async function importAll(operations: ServerOperations, fleet: string): Promise<void> {
  for (const tensor of tensors) {
    const pieces: Uint8Array[] = [];
    for await (const chunk of safetensorsChunks([{ name: "w", source: sourceOfTensor(tensor) }]))
      pieces.push(Buffer.from(chunk));
    const file = Buffer.concat(pieces);
    await operations.import(
      {
        byteLength: file.length,
        chunks: (async function* () {
          yield await Promise.resolve(file);
        })(),
      },
      { fleet, name: "m" },
    );
  }
}

async function assertSame(operations: ServerOperations, fleet: string, versions = [1, 2, 3]): Promise<void> {
  for (const version of versions)
    assert.deepEqual(
      Buffer.compare(
        (await tensorBytes(operations, `m:${version}`, fleet))["w"]!,
        tensors[version - 1]!.bytes,
      ),
      0,
    );
}

it("moves to a tier and back, in process and through a server, which starts and serves without the tier", async (context) => {
  const folder = await temporaryFolder(context);
  const server = await startTestServer();
  context.after(() => server.remove());
  const local = await openLocalOperations({ home: join(folder, "home") });
  const remote = connectOperations({ socketPath: server.handle.socketPath }, 5);
  const doors = [
    { operations: local, fleet: "local", cold: join(folder, "cold-1") },
    { operations: remote, fleet: testFleet, cold: join(folder, "cold-2") },
  ];
  const answers: unknown[] = [];
  for (const { operations, fleet, cold } of doors) {
    await importAll(operations, fleet);
    await mkdir(cold);
    await assert.rejects(operations.planTier({ fleet, tier: "cold" }), hasCode("NOT_FOUND"));
    await assert.rejects(operations.addTier({ name: "cold", folder: "relative" }), hasCode("TIER_INVALID"));
    assert.equal((await operations.addTier({ name: "cold", folder: cold })).bytes, 0);
    const plan = await operations.planTier({ fleet, tier: "cold" });
    const { packBytesBefore, packBytesAfter, ...applied } = await operations.applyTier({
      fleet,
      tier: "cold",
    });
    assert.ok(packBytesAfter < packBytesBefore);
    const { tierFreeBytes: _free, tierBytesPerSecond: rate, recovery, packBytes: _packs, ...planned } = plan;
    assert.ok(rate > 0 && recovery.largestMs > 0);
    answers.push([
      { ...planned, fleet: "" },
      { ...applied, fleet: "" },
      (await operations.stats({ fleet })).low,
      (await operations.tiers()).map(({ name, files, bytes }) => ({ name, files, bytes })),
    ]);
    await assertSame(operations, fleet);
  }
  assert.deepEqual(answers[0], answers[1]);

  // The tier's disk is gone: the server starts, says so, and serves what does not need it.
  const [, { cold }] = doors as [unknown, { cold: string }];
  await rename(cold, `${cold}-away`);
  await mkdir(cold);
  await server.restart();
  const again = connectOperations({ socketPath: server.handle.socketPath }, 5);
  assert.equal((await again.tiers())[0]?.error?.code, "TIER_UNREACHABLE");
  await assertSame(again, testFleet, [3]);
  await assert.rejects(tensorBytes(again, "m:1", testFleet), hasCode("TIER_UNREACHABLE"));
  const check = await runStemmaHere(["storage", "check", "--fleet", testFleet], { home: server.home });
  assert.equal(check.status, exitStatus.partly, check.stdout + check.stderr);
  assert.match(check.stdout, /not looked at: 2 tensors/);
  await assert.rejects(again.removeTier({ tier: "cold" }), hasCode("TIER_UNREACHABLE"));
  // A folder of other files in its place is not taken for the tier either.
  await writeFile(join(cold, "stemma-tier.json"), "{}");
  await assert.rejects(again.planTier({ fleet: testFleet, tier: "cold" }), hasCode("TIER_UNREACHABLE"));
  await rename(cold, `${cold}-other`);
  await rename(`${cold}-away`, cold);
  await assertSame(again, testFleet);
  assert.equal((await again.removeTier({ tier: "cold" })).tensors, 2);
  assert.deepEqual(await again.tiers(), []);
  assert.equal((await local.removeTier({ tier: "cold" })).tensors, 2);
  await assertSame(again, testFleet);
  await assertSame(local, "local");
  await again.close();
  await remote.close();
  await local.close();
});
