/** A program's profile among the data of its version: read back, and every damage and lie is told, not run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeDataManifest } from "../../../../shared/data/data-manifest.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { objectMissing } from "../../../../shared/objects/object-errors.js";
import { hasProfile, profileToStore, readStoredProfile } from "../../../../shared/programs/stored-profile.js";
import { asyncIterableOf } from "../../../../shared/tensor/async-iterable.js";
import { objectId, sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { nodeRandom } from "../../../../shared/adapters/node-ports.js";

/** The record of a process, as recorder.c writes it. */
const records = Buffer.alloc(64);
records[20] = 6;

type Store = Parameters<typeof readStoredProfile>[0];

function storeOf(objects: ReadonlyMap<Hash, Uint8Array>): Store {
  const bytesOf = (id: Hash): Uint8Array => {
    const bytes = objects.get(id);
    if (bytes === undefined) throw objectMissing(id, "test");
    return bytes;
  };
  return {
    read: (_: string, id: Hash) => Promise.resolve().then(() => bytesOf(id)),
    stat: (id: Hash) => {
      const bytes = objects.get(id);
      return bytes && { kind: "data", byteLength: bytes.length };
    },
    openStream: (_: string, id: Hash) => ({ chunks: () => asyncIterableOf([bytesOf(id)]) }),
  } as unknown as Store;
}

async function stored() {
  const { content, objects: used } = profileToStore(records, nodeRandom());
  const objects = new Map<Hash, Uint8Array>();
  for (const each of used) {
    assert.ok("source" in each);
    for await (const bytes of each.source.chunks()) objects.set(objectId("data", bytes), bytes);
  }
  return { content, objects, ids: [...objects.keys()] as [Hash, Hash, Hash] };
}

test("a profile is read back, has another hash each time, and says what it is", async () => {
  const [one, other] = [await stored(), await stored()];
  assert.deepEqual(await readStoredProfile(storeOf(one.objects), one.ids, one.content), records);
  assert.notEqual(one.content, other.content);
  for (const id of one.ids) assert.equal(await hasProfile(storeOf(one.objects), [id]), true);
});

test("a profile is known by its bytes, however a device states its data", async () => {
  const { objects, ids } = await stored();
  const [, chunk] = ids;
  const [junk, samples] = [
    Buffer.concat([Buffer.from("STEMDESC"), Buffer.alloc(60)]),
    Buffer.from("samples"),
  ];
  const chunks = [
    { id: objectId("data", samples), byteLength: samples.length },
    { id: chunk, byteLength: 9 },
  ];
  const own = encodeDataManifest({
    kept: "chunks",
    content: sha256("own"),
    byteLength: samples.length,
    chunks: chunks.slice(0, 1),
  });
  const foreign = encodeDataManifest({
    kept: "chunks",
    content: sha256("foreign"),
    byteLength: samples.length + 9,
    chunks,
  });
  const all = [junk, samples, own, foreign].map((bytes) => [objectId("data", bytes), bytes] as const);
  const store = storeOf(new Map<Hash, Uint8Array>([...objects, ...all]));
  const found = await Promise.all(all.map(([id]) => hasProfile(store, [id])));
  assert.deepEqual(found, [true, false, false, true]);
});

test("a profile that is damaged, of another version, oversized or gone is told with the reason", async () => {
  const { content, objects, ids } = await stored();
  const [manifest, chunk] = ids;
  const read = (changed: ReadonlyMap<Hash, Uint8Array>, data: readonly Hash[] = ids, hash = content) =>
    readStoredProfile(storeOf(changed), data, hash);
  const bytes = objects.get(chunk) as Uint8Array;
  for (const at of [0, 8, 20, 60, bytes.length - 1]) {
    const flipped = bytes.slice();
    flipped[at] = (flipped[at] as number) ^ 1;
    assert.match(
      String(await read(new Map([...objects, [chunk, flipped]]))),
      /^cannot be read: .*has the hash/,
    );
  }
  assert.match(
    String(await read(new Map([...objects].filter(([id]) => id !== chunk)))),
    /^is not stored here/,
  );
  assert.match(String(await read(objects, [])), /is not among the data/);
  assert.match(String(await read(objects, ids, sha256("another"))), /is not among the data/);
  const lying = (of: Uint8Array, byteLength = of.length) => {
    const chunks = [{ id: chunk, byteLength }];
    const lie = encodeDataManifest({ kept: "chunks", content: sha256(of), byteLength, chunks });
    return read(new Map([...objects, [manifest, lie], [chunk, of]]), ids, sha256(of));
  };
  assert.match(String(await lying(Buffer.from("samples"))), /is not a profile of a form/);
  assert.match(String(await lying(bytes, 2 ** 30)), /has 1073741824 bytes, of at most 4194304/);
  for (const length of [8, 11, 43])
    assert.match(
      String(await lying(bytes.subarray(0, length))),
      /is not a profile of a form/,
      `${length} bytes`,
    );
  const cut = Buffer.concat([bytes.subarray(0, 44), Buffer.from("no profile")]);
  assert.match(String(await lying(cut)), /cannot be read: the profile is not a whole profile/);
});

test("a program that drew too much is told so", () => {
  assert.throws(
    () => profileToStore(new Uint8Array(4 * 1024 * 1024), nodeRandom()),
    (error) => isStemmaError(error, "TRAINER_OUTPUT_TOO_LARGE"),
  );
});
