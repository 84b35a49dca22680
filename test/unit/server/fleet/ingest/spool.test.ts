/** The spool of an incoming upload, in memory and in a file: any order of writes, quota, and restart. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openSpoolFolder, type SpoolFolder } from "../../../../../server/fleet/ingest/uploads/spool.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import type { Files } from "../../../../../shared/ports.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const hash = (at: number): Hash => at.toString(16).padStart(64, "0") as Hash;
const folder = "/home/fleets/f/spool";
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

async function open(
  files: Files,
  now = (): number => Date.now(),
  more: Partial<{
    spoolBytes: number;
    spoolBytesPerDevice: number;
    spoolMs: number;
    memorySpoolBytes: number;
  }> = {},
): Promise<SpoolFolder> {
  return openSpoolFolder({ files, clock: { now }, log: silentLog() }, folder, {
    spoolBytes: 1000,
    spoolBytesPerDevice: more.spoolBytes ?? 1000,
    spoolMs: 60_000,
    memorySpoolBytes: 0,
    ...more,
  });
}
async function all(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const chunk of chunks) pieces.push(chunk);
  return Buffer.concat(pieces).toString();
}

for (const [where, memorySpoolBytes] of [
  ["on disk", 0],
  ["in memory", 1000],
] as const) {
  describe(`a spool ${where}`, () => {
    it("returns what was written in any order, and continues after a pause", async () => {
      const spools = await open(memoryFiles({ now: () => Date.now() }), undefined, { memorySpoolBytes });
      const spool = await spools.create(hash(1), 10, "car");
      assert.ok(spool);
      await spool.write(5, text("world"));
      await spool.write(0, text("hello"));
      assert.equal(await all(spool.chunks(2, 6)), "llowor");
      await spool.saveState(text("place"));
      await spool.close();
      const resumed = await spools.resume(hash(1), 1000, "car");
      assert.ok(resumed);
      assert.equal(Buffer.from(resumed.state).toString(), "place");
      assert.equal(await all(resumed.spool.chunks(0, 10)), "helloworld");
      assert.equal(await spools.resume(hash(1), 1000, "car"), undefined, "it is in use");
      await resumed.spool.remove();
      assert.equal(await spools.resume(hash(1), 1000, "car"), undefined);
      assert.equal(spools.bytes, 0);
    });

    it("is refused at the quota, and accepted again after another was removed", async () => {
      const spools = await open(memoryFiles({ now: () => Date.now() }), undefined, { memorySpoolBytes });
      const first = await spools.create(hash(1), 600, "car");
      assert.ok(first);
      assert.equal(await spools.create(hash(2), 600, "car"), undefined);
      await first.remove();
      assert.ok(await spools.create(hash(2), 600, "car"));
      assert.equal(spools.bytes, 600);
    });
  });
}

describe("the spool folder", () => {
  it("finds existing files after a restart, and counts their size", async () => {
    const files = memoryFiles({ now: () => Date.now() });
    const before = await open(files);
    const spool = await before.create(hash(1), 700, "car");
    await spool?.write(0, text("x"));
    await spool?.saveState(text("s"));
    const after = await open(files);
    assert.equal(after.bytes, 700);
    assert.equal((await after.resume(hash(1), 1000, "car"))?.spool.byteLength, 700);
    assert.equal(await after.create(hash(2), 400, "bus"), undefined, "the first is in use");
  });

  it("gives each device a share, also of what it resumed", async () => {
    const files = memoryFiles({ now: () => Date.now() });
    const before = await open(files);
    const first = await before.create(hash(1), 300, "car");
    await first?.write(0, text("x"));
    await first?.saveState(text("s"));
    const after = await open(files, undefined, { spoolBytesPerDevice: 500 });
    assert.equal((await after.resume(hash(1), 1000, "car"))?.spool.byteLength, 300);
    assert.equal(await after.create(hash(2), 300, "car"), undefined);
    assert.ok(await after.create(hash(2), 200, "car"));
    assert.ok(await after.create(hash(3), 200, "bus"));
  });

  it("removes unused spools where space is short, those without progress for the longest time first", async () => {
    let now = 1000;
    const spools = await open(memoryFiles({ now: () => now }), () => now);
    for (const at of [1, 2, 3]) {
      const spool = await spools.create(hash(at), 300, "car");
      await spool?.saveState(text("s"));
      now += 10;
      if (at > 1) await spool?.close();
    }
    assert.ok(await spools.create(hash(4), 400, "bus"));
    assert.equal(await spools.resume(hash(2), 1000, "car"), undefined, "it was the oldest that nobody used");
    assert.ok(await spools.resume(hash(3), 1000, "car"));
    assert.equal(await spools.create(hash(5), 300, "bus"), undefined, "those in use stay");
  });

  it("keeps space for others, however much two devices take together", async () => {
    const spools = await open(memoryFiles({ now: () => Date.now() }), undefined, { spoolBytes: 16_000 });
    let next = 1;
    const fill = async (device: string, bytes: number): Promise<number> => {
      let taken = 0;
      while ((await spools.create(hash(next++), bytes, device)) !== undefined) taken += bytes;
      return taken;
    };
    const taken = (await fill("hoarder-1", 500)) + (await fill("hoarder-2", 500));
    assert.equal(taken, 12_000 + 2000, "three quarters, and half of the rest for the one that came second");
    // With small pieces they get no further: they have much there already.
    assert.equal((await fill("hoarder-1", 10)) + (await fill("hoarder-2", 10)), 0);
    for (let device = 0; device < 4; device++)
      assert.ok(await spools.create(hash(next++), 400, `car-${device}`), "there is space left for them");
    assert.equal(await fill("hoarder-3", 10), 200, "of what is left nobody takes more than half");
    assert.equal(await spools.create(hash(next++), 400, "late"), undefined);
    assert.ok(await spools.create(hash(next++), 100, "late"));
  });

  it("removes those of a device that leaves most behind first, not those that wait longest", async () => {
    let now = 0;
    const spools = await open(memoryFiles({ now: () => now }), () => now, { spoolBytes: 2000 });
    const leave = async (versionId: Hash, bytes: number, device: string): Promise<void> => {
      now++;
      const spool = await spools.create(versionId, bytes, device);
      await spool?.saveState(text("s"));
      await spool?.close();
    };
    await leave(hash(1), 300, "car");
    for (const at of [2, 3, 4, 5]) await leave(hash(at), 400, "hoarder");
    await leave(hash(6), 500, "hoarder");
    assert.ok(await spools.resume(hash(1), 1000, "car"));
    assert.equal(await spools.resume(hash(2), 1000, "hoarder"), undefined);
    assert.equal(spools.bytes, 300 + 3 * 400 + 500);
  });

  it("removes a device's own unused ones where its share is full", async () => {
    const spools = await open(memoryFiles({ now: () => Date.now() }), undefined, {
      spoolBytesPerDevice: 500,
    });
    const old = await spools.create(hash(1), 400, "car");
    await old?.close();
    assert.ok(await spools.create(hash(2), 300, "car"));
    assert.equal(spools.bytes, 300);
  });

  it("does not resume files without state, longer than allowed, or without data", async () => {
    const files = memoryFiles({ now: () => Date.now() });
    const spools = await open(files);
    const stateless = await spools.create(hash(1), 10, "car");
    await stateless?.close();
    assert.equal(await spools.resume(hash(1), 1000, "car"), undefined);
    const long = await spools.create(hash(2), 500, "car");
    await long?.saveState(text("s"));
    await long?.close();
    assert.equal(await spools.resume(hash(2), 400, "car"), undefined);
    const lost = await spools.create(hash(3), 10, "car");
    await lost?.saveState(text("s"));
    await lost?.close();
    await files.remove(`${folder}/${hash(3)}.data`);
    assert.equal(await spools.resume(hash(3), 1000, "car"), undefined);
  });

  it("removes files unused for too long and foreign files, but none in use", async () => {
    const files = memoryFiles({ now: () => Date.now() });
    let later = 0;
    const spools = await open(files, () => Date.now() + later);
    const kept = await spools.create(hash(1), 10, "car");
    const old = await spools.create(hash(2), 10, "car");
    await old?.saveState(text("s"));
    await old?.close();
    await (await files.open(`${folder}/stray.txt`, "create")).close();
    later = 120_000;
    await spools.expire();
    assert.deepEqual(await files.list(folder), [`${hash(1)}.data`]);
    await kept?.remove();
  });
});
