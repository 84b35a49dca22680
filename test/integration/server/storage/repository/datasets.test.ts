/**
 * Stored data sets: chunks that grown data share, that stay while a name or a version needs them, that are proven,
 * backed up and restored; and a push that was cut short goes on.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { restoreBackup } from "../../../../../server/storage/repository/backup/restore.js";
import type { VersionSummary } from "../../../../../server/storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { encodeDataManifest, placeManifest } from "../../../../../shared/data/data-manifest.js";
import { readData, readManifest } from "../../../../../shared/data/stored-data.js";
import { objectId, sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { encodeSaveRecord } from "../../../../../shared/model/save-record.js";
import { streamOf } from "../../../../helpers/object-stores.js";
import { memoryHome, modelOf, openRepository, seededBytes, tensorsOf } from "./harness.js";

const graceMs = 61_000;
const samples = seededBytes("samples", 300_000);
const grown = new Uint8Array(Buffer.concat([samples, seededBytes("more samples", 20_000)]));
const model = tensorsOf("model", 1, 4);

async function register(repository: FleetRepository, name: string, bytes: Uint8Array): Promise<Hash> {
  const hash = sha256(bytes);
  const kind = "samples";
  await repository.append({ type: "data", atMs: 1, name, kind, location: "/d", parameters: {}, hash });
  return hash;
}
const piecesOf = (bytes: Uint8Array): readonly Uint8Array[] => [bytes.subarray(0, 99), bytes.subarray(99)];

async function push(
  repository: FleetRepository,
  name: string,
  bytes: Uint8Array,
): ReturnType<typeof repository.pushDataset> {
  await register(repository, name, bytes);
  return repository.pushDataset(name, piecesOf(bytes));
}

/** A version whose training used this data object. */
async function trainedWith(repository: FleetRepository, object: Uint8Array | Hash): Promise<VersionSummary> {
  const used = typeof object === "string" ? { id: object } : { source: streamOf(object) };
  return (await repository.save(modelOf(model), { name: "soh", uses: { data: [used] } })).summary;
}

async function readBack(repository: FleetRepository, content: Hash): Promise<Uint8Array | undefined> {
  const stored = await repository.dataObject(content);
  if (stored === undefined) return undefined;
  const pieces: Uint8Array[] = [];
  for await (const piece of readData(repository.objects, stored.manifest)) pieces.push(piece);
  return new Uint8Array(Buffer.concat(pieces));
}

describe("stored data sets", () => {
  test("come back byte for byte, and grown ones cost their growth and a chunk or two", async () => {
    const { home } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const first = await push(repository, "cells", samples);
    // Noise is stored as it is, with a byte for its coding.
    assert.equal(first.newBytes, samples.length + first.newChunks);
    assert.deepEqual(await readBack(repository, sha256(samples)), samples);
    const again = await repository.pushDataset("cells", piecesOf(samples));
    assert.deepEqual([again.object, again.newBytes], [first.object, 0]);
    const second = await push(repository, "more", grown);
    assert.ok(second.newBytes < 20_000 + 131_072, `${second.newBytes}`);
    assert.deepEqual(await readBack(repository, sha256(grown)), grown);
    await assert.rejects(repository.pushDataset("cells", piecesOf(grown)), { code: "DATASET_MALFORMED" });
    await assert.rejects(repository.pushDataset("none", []), { code: "DATASET_UNKNOWN" });
  });

  test("stay while a name or a kept version needs them, and go with the last", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { object } = await push(repository, "cells", samples);
    const collect = async (): Promise<boolean> => {
      ports.clock.advance(graceMs);
      await repository.collect(await repository.planCollection());
      return (await readBack(repository, sha256(samples))) !== undefined;
    };
    assert.ok(await collect());
    const version = await trainedWith(repository, object);
    await assert.rejects(repository.removeDataset("cells", { evenIfUsed: false }), {
      code: "DATASET_IN_USE",
    });
    assert.deepEqual(await repository.removeDataset("cells", { evenIfUsed: true }), {
      name: "cells",
      versions: 1,
    });
    assert.ok(await collect());
    assert.deepEqual((await repository.check()).problems, []);
    await repository.retire(version.versionId, "old");
    assert.ok(!(await collect()));
  });

  test("stay for versions that were trained before the data were stored", async () => {
    const { home, ports } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const hash = await register(repository, "cells", samples);
    const version = await trainedWith(repository, placeManifest(hash, "reference"));
    await repository.pushDataset("cells", piecesOf(samples));
    assert.deepEqual(
      repository.versionsWithData(hash).map(({ versionId }) => versionId),
      [version.versionId],
    );
    await repository.removeDataset("cells", { evenIfUsed: true });
    for (const isKept of [true, false]) {
      ports.clock.advance(graceMs);
      await repository.collect(await repository.planCollection());
      assert.equal((await repository.dataObject(hash)) !== undefined, isKept);
      if (isKept) await repository.retire(version.versionId, "old");
    }
  });

  test("a push that is cut short goes on, and nothing half stored is seen", async () => {
    const { home, reopen } = await memoryHome();
    let repository = await openRepository(home, "fleet-a");
    const hash = await register(repository, "cells", samples);
    function* cutShort(): Generator<Uint8Array> {
      yield samples.subarray(0, 200_000);
      throw new Error("killed");
    }
    await assert.rejects(repository.pushDataset("cells", cutShort(), { packBytes: 50_000 }), /killed/);
    assert.equal(await repository.dataObject(hash), undefined);
    await repository.close();
    await home.close();
    repository = await openRepository(await reopen(), "fleet-a");
    const { newBytes } = await repository.pushDataset("cells", piecesOf(samples));
    assert.ok(newBytes > 0 && newBytes < samples.length - 50_000, `${newBytes}`);
    assert.deepEqual(await readBack(repository, hash), samples);
    assert.deepEqual((await repository.check()).problems, []);
  });

  test("a flipped bit in a chunk is named by check and verify, and a restore brings the bytes back", async () => {
    const { home, files, ports, reopen } = await memoryHome();
    let repository = await openRepository(home, "fleet-a");
    const { object, manifest } = await push(repository, "cells", samples);
    const { versionId } = await trainedWith(repository, object);
    assert.ok((await repository.verify(versionId)).parts.some((part) => part.includes("data")));
    assert.deepEqual((await repository.backup("/backup")).problems, []);
    await repository.close();
    await home.close();
    const chunk = manifest.chunks[1]!;
    const offset = manifest.chunks[0]!.byteLength;
    const packs = "/home/fleets/fleet-a/packs";
    for (const name of (await files.list(packs)).filter((each) => each.endsWith(".pack"))) {
      const at = Buffer.from(await files.read(`${packs}/${name}`)).indexOf(
        samples.subarray(offset, offset + 64),
      );
      if (at < 0) continue;
      const file = await files.open(`${packs}/${name}`, "update");
      await file.write(Uint8Array.of(samples[offset]! ^ 1), at);
      await file.close();
    }
    repository = await openRepository(await reopen(), "fleet-a");
    const { problems } = await repository.check();
    assert.deepEqual(
      problems.map(({ what, id }) => [what, id]),
      [["data: OBJECT_HASH_MISMATCH", chunk.id]],
    );
    await assert.rejects(repository.verify(versionId), {
      code: "OBJECT_HASH_MISMATCH",
      message: /chunk 2 of/,
    });
    await repository.close();
    await restoreBackup("/backup", "/restored", ports);
    const restored = await openRepository(await openHome("/restored", ports), "fleet-a");
    assert.deepEqual(await readBack(restored, sha256(samples)), samples);
    assert.deepEqual((await restored.check()).problems, []);
  });

  test("a device's manifest may list only chunks that its record names", async () => {
    const { home } = await memoryHome();
    const repository = await openRepository(home, "fleet-a");
    const { manifest } = await push(repository, "cells", samples);
    const { record } = await trainedWith(repository, encodeDataManifest(manifest));
    const sent = (data: readonly Hash[]): Uint8Array =>
      encodeSaveRecord({ ...record, sequence: record.sequence + 9, uses: { data } });
    const object = objectId("data", encodeDataManifest(manifest));
    assert.notEqual(await readManifest(repository.objects, object), undefined);
    await assert.rejects(repository.record(sent([object]), { generation: 1 }), { code: "RECORD_INVALID" });
    const chunks = manifest.chunks.map(({ id }) => id);
    const { versionId } = await repository.record(sent([object, ...chunks]), { generation: 1 });
    assert.deepEqual(repository.get(versionId)?.record.uses?.data?.length, 1 + chunks.length);
  });
});
