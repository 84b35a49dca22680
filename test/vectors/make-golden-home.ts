/**
 * Makes a golden home: run it by hand for a new format number; no test runs it.
 *
 *     node dist/test/vectors/make-golden-home.js test/vectors/home-2
 *
 * Refuses a folder that exists: an existing golden home stands for what users have on disk and never changes.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { openHome } from "../../server/storage/repository/home.js";
import { openRepository } from "../../server/storage/repository/open-repository.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { readModelJson } from "../../shared/model/model-json.js";
import type { ModelSource } from "../../shared/model/model.js";
import { modelSourceOfTensors, opaqueModelSource } from "../../shared/save/model-source.js";
import { tensorOfSource } from "../../shared/tensor/tensor.js";
import { seededBytes, seededRandom } from "../integration/server/storage/repository/harness.js";
import { manualClock } from "../helpers/manual-clock.js";

const folder = resolve(process.argv[2] ?? "");
if (process.argv[2] === undefined || existsSync(folder))
  throw new Error("Name a folder that does not exist yet.");

const { architecture: dense } = readModelJson(
  Buffer.from(
    JSON.stringify({
      class_name: "Sequential",
      config: {
        name: "soh",
        layers: [
          {
            class_name: "Dense",
            config: {
              name: "dense",
              batch_input_shape: [null, 3],
              units: 2,
              activation: "relu",
              use_bias: true,
            },
          },
        ],
      },
    }),
  ),
  new Map([
    ["dense/kernel", { dtype: "F32", shape: [3, 2] }],
    ["dense/bias", { dtype: "F32", shape: [2] }],
  ]),
);
const bits = (...words: readonly number[]): Uint8Array => new Uint8Array(Uint32Array.from(words).buffer);

function denseModel(bias: Uint8Array): ModelSource {
  // A signalling NaN, −0, an infinity and a denormal: bits that a float assignment would change.
  return modelSourceOfTensors(dense, [
    {
      dtype: "F32",
      shape: [3, 2],
      bytes: bits(0x7f800001, 0x80000000, 0x7f800000, 1, 0x3f800000, 0xffc12345),
    },
    { dtype: "F32", shape: [2], bytes: bias },
  ]);
}

function opaqueModel(seed: string): ModelSource {
  return opaqueModelSource(
    [
      { name: "z.scale", dtype: "F32", shape: [], bytes: seededBytes(`${seed}/scale`, 4) },
      { name: "a.empty", dtype: "F16", shape: [0, 3], bytes: new Uint8Array(0) },
      { name: "b.num_batches_tracked", dtype: "I64", shape: [1], bytes: seededBytes(`${seed}/count`, 8) },
      { name: "ß.int8", dtype: "I8", shape: [2, 5], bytes: seededBytes("fixed", 10) },
    ],
    { format: "pt", made: "by hand" },
  );
}

const clock = manualClock(1_767_225_600_000);
const ports = {
  files: nodeFiles({ fileMode: 0o644, folderMode: 0o755 }),
  clock,
  random: seededRandom("golden"),
  environment: { backend: "none", stemma: "0.1.0", node: "v20.19.0" },
};
const home = await openHome(folder, ports);
const repository = await openRepository(home, "golden");
const step = (): number => {
  clock.advance(60_000);
  return clock.now();
};

await repository.append({
  type: "enrolled",
  atMs: step(),
  device: "car-1",
  publicKey: "ab".repeat(32),
  tokenHash: "cd".repeat(32),
  profile: "raspberry-pi",
  lines: ["pack"],
});
await repository.append({
  type: "enrolled",
  atMs: step(),
  device: "car-2",
  publicKey: "ef".repeat(32),
  tokenHash: "01".repeat(32),
  profile: "generic",
  lines: ["pack", "front-cam"],
});
const base = (
  await repository.save(denseModel(bits(0x3f000000, 0xbf000000)), {
    name: "soh",
    metadata: { temperature: 21.5, site: "north", indoor: true },
  })
).summary;
step();
const child = (
  await repository.save(denseModel(bits(0x3f000001, 0xbf000000)), {
    name: "soh",
    device: "car-1",
    line: "pack",
    bases: [base.versionId],
    measurements: Buffer.from('[{"iteration":1,"loss":0.5}]'),
    provenance: Buffer.from('{"recipe":"battery-soh"}'),
  })
).summary;
step();
const equal = (
  await repository.save(denseModel(bits(0x3f000001, 0xbf000000)), {
    name: "soh",
    device: "car-1",
    line: "pack",
    bases: [child.versionId],
    successorOf: base.versionId,
  })
).summary;
step();
const opaque = (
  await repository.save(opaqueModel("one"), {
    name: "front camera/opaque",
    attachments: [{ name: "notes.txt", bytes: Buffer.from("kept with the version\n") }],
  })
).summary;
step();
const gone = (
  await repository.save(opaqueModel("two"), { name: "front camera/opaque", bases: [opaque.versionId] })
).summary;
for (const { versionId } of [base, child]) {
  step();
  await repository.confirmStored(versionId);
}
await repository.release(child.versionId, "stored");
await repository.tag("soh", "best", child.versionId);
await repository.hold(base.versionId, "incident 7");
await repository.append({
  type: "assigned",
  atMs: step(),
  device: "car-2",
  line: "pack",
  versionId: base.versionId,
});
await repository.append({ type: "session", atMs: step(), device: "car-1", session: 3 });
const activatedAtMs = step();
await repository.append({
  type: "activated",
  atMs: activatedAtMs + 500,
  versionId: child.versionId,
  device: "car-1",
  line: "pack",
  deviceAtMs: activatedAtMs,
  deviceClockErrorMs: 100,
  session: 3,
});
await repository.append({
  type: "activated",
  atMs: step(),
  versionId: base.versionId,
  device: "car-2",
  line: "pack",
  deviceAtMs: 12,
  deviceClockErrorMs: null,
  session: 1,
});
await repository.append({
  type: "data",
  atMs: step(),
  name: "cells",
  kind: "nasa-battery",
  location: "/data/nasa-battery",
  hash: null,
});
await repository.append({ type: "revoked", atMs: step(), device: "car-2", because: "sold" });
await repository.retire(gone.versionId, "replaced");
step();
await repository.collect(await repository.planCollection());

const tensorsOf = async (versionId: typeof base.versionId): Promise<unknown> => {
  const model = await repository.recover(versionId);
  return await Promise.all(
    model.sources.map(async (source, leaf) => ({
      path: model.leaves[leaf]!.path,
      name: model.names.leaves[leaf]!,
      dtype: source.dtype,
      shape: source.shape,
      sha256: createHash("sha256")
        .update((await tensorOfSource(source)).bytes)
        .digest("hex"),
    })),
  );
};
const expected = {
  madeBy: "Stemma 0.1.0",
  publicKey: home.signer.publicKey,
  head: repository.journal.head(),
  versions: repository.versions({ includeRetired: true }),
  tensors: Object.fromEntries(
    await Promise.all(
      [base, child, equal, opaque].map(
        async ({ versionId }) => [versionId, await tensorsOf(versionId)] as const,
      ),
    ),
  ),
  devices: repository.devices(),
  datasets: repository.datasets(),
  moments: [
    { atMs: activatedAtMs + 200, answer: repository.asOf(activatedAtMs + 200) },
    { atMs: activatedAtMs + 50, answer: repository.asOf(activatedAtMs + 50) },
  ],
};
await repository.close();
await home.close();
await rm(join(folder, "run"), { recursive: true, force: true });
await rm(join(folder, "run.json"), { force: true });
await writeFile(`${folder}.expected.json`, `${JSON.stringify(expected, undefined, 1)}\n`);
console.error(`${folder}: ${expected.versions.length} versions, ${expected.head.length} facts`);
