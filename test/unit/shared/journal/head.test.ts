/** The head of a journal on the disk: its bytes, which of two slots counts, and what is not taken for a head. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { crc32 } from "node:zlib";
import { encodeHeadSlot, headSlotBytes, newestHead, type KeptHead } from "../../../../shared/journal/head.js";
import { sha256 } from "../../../../shared/tensor/hash.js";

const head = (length: number, more: Partial<KeptHead> = {}): KeptHead => ({
  length,
  chain: sha256(`chain ${length}`),
  root: sha256(`root ${length}`),
  publicKey: "a".repeat(64),
  signature: "b".repeat(128),
  ...more,
});
const file = (...slots: readonly Uint8Array[]): Uint8Array => Buffer.concat(slots);
/** The slot with other bytes and the checksum that belongs to them. */
function rewritten(slot: Uint8Array, change: (view: DataView) => void): Uint8Array {
  const bytes = Uint8Array.from(slot);
  const view = new DataView(bytes.buffer);
  change(view);
  view.setUint32(12, crc32(bytes.subarray(16)), true);
  return bytes;
}

describe("the head of a journal", () => {
  it("has the bytes that docs/formats.md gives it", () => {
    const slot = encodeHeadSlot(head(258));
    const view = new DataView(slot.buffer);
    assert.equal(slot.length, 1024);
    assert.equal(Buffer.from(slot.subarray(0, 8)).toString(), "STEMHEAD");
    assert.deepEqual([view.getUint32(8, true), view.getUint32(12, true)], [1, crc32(slot.subarray(16))]);
    assert.equal(view.getBigUint64(16, true), 258n);
    assert.equal(Buffer.from(slot.subarray(24, 56)).toString("hex"), sha256("chain 258"));
    assert.equal(Buffer.from(slot.subarray(56, 88)).toString("hex"), sha256("root 258"));
    assert.deepEqual([view.getUint16(88, true), view.getUint16(90, true)], [64, 128]);
    assert.equal(Buffer.from(slot.subarray(92, 92 + 192)).toString(), `${"a".repeat(64)}${"b".repeat(128)}`);
    assert.ok(slot.subarray(92 + 192).every((byte) => byte === 0));
  });

  it("is the longest of the intact slots, in whichever of the two it is", () => {
    const [short, long] = [encodeHeadSlot(head(3)), encodeHeadSlot(head(7))];
    const torn = long.slice();
    torn[500] = 1;
    for (const [slots, length] of [
      [[short, long], 7],
      [[long, short], 7],
      [[short], 3],
      [[torn, short], 3],
      [[short, torn], 3],
      [[new Uint8Array(headSlotBytes), long], 7],
      [[encodeHeadSlot(head(0))], 0],
    ] as const)
      assert.deepEqual(newestHead(file(...slots)), head(length));
    assert.equal(newestHead(new Uint8Array()), undefined);
    assert.equal(newestHead(torn), undefined);
    assert.deepEqual(newestHead(file(short, long.subarray(1))), head(3), "cut off");
    assert.deepEqual(
      newestHead(encodeHeadSlot(head(1, { publicKey: "", signature: "" }))),
      head(1, { publicKey: "", signature: "" }),
    );
  });

  it("is not a slot whose lengths do not fit, whatever its checksum says", () => {
    const slot = encodeHeadSlot(head(3));
    const full = encodeHeadSlot(head(3, { signature: "b".repeat(1024 - 92 - 64) }));
    assert.equal(newestHead(full)?.signature.length, 868);
    assert.throws(() => encodeHeadSlot(head(3, { signature: "b".repeat(869) })), RangeError);
    for (const change of [
      (view: DataView) => view.setUint16(88, 1024, true),
      (view: DataView) => view.setUint16(90, 869, true),
      (view: DataView) => view.setBigUint64(16, 2n ** 60n, true),
      (view: DataView) => view.setUint32(8, 2, true),
      (view: DataView) => view.setUint8(0, 0),
    ])
      assert.equal(newestHead(rewritten(slot, change)), undefined);
  });

  it("is not taken where any byte of it was changed", () => {
    const slot = encodeHeadSlot(head(3));
    for (let at = 0; at < slot.length; at++) {
      const changed = slot.slice();
      changed[at] = (changed[at] as number) ^ 1;
      assert.equal(newestHead(changed), undefined, `byte ${at}`);
    }
  });
});
