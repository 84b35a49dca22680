/**
 * A tensor larger than 4 GiB, the limit of Node's buffers, and 2 GiB, the limit of one read or write. Needs 5 GB of
 * disk; runs only with STEMMA_TEST_FULL=1.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { TensorSource } from "../../../../shared/tensor/tensor.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const pieceBytes = 64 * 1024 * 1024;

/** Pieces with different content. */
function counted(byteLength: number): TensorSource {
  return {
    dtype: "U8",
    shape: [byteLength],
    byteLength,
    async *chunks() {
      const piece = new Uint8Array(pieceBytes).fill(0x5a);
      for (let at = 0; at < byteLength; at += pieceBytes) {
        new DataView(piece.buffer).setUint32(0, at / pieceBytes, true);
        yield Promise.resolve(piece.subarray(0, Math.min(pieceBytes, byteLength - at)));
      }
    },
  };
}

it("streams a tensor of more than 4 GiB in and out, and keeps little of it in memory", async (context) => {
  if (process.env["STEMMA_TEST_FULL"] !== "1") {
    context.skip("writes 4.3 GB; set STEMMA_TEST_FULL=1");
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), "stemma-large-"));
  try {
    const open = () =>
      openPackStore(nodeFiles(), folder, { clock: manualClock(), random: seededRandom("large") });
    const byteLength = 4 * 2 ** 30 + 12_345;
    const store = await open();
    const pack = await store.begin();
    const id = await pack.putTensor(counted(byteLength));
    const after = await pack.put("names", new Uint8Array([1]));
    await pack.commit();
    await store.close();
    const again = await open();
    assert.equal(again.stat(id)?.byteLength, byteLength);
    let bytes = 0;
    let most = 0;
    // Verified against its id while reading.
    for await (const piece of again.openTensor(id).chunks()) {
      bytes += piece.length;
      most = Math.max(most, piece.length);
    }
    assert.equal(bytes, byteLength);
    assert.ok(most <= pieceBytes);
    assert.deepEqual(await again.read("names", after), new Uint8Array([1]));
    assert.ok(process.resourceUsage().maxRSS < 1024 * 1024, `${process.resourceUsage().maxRSS} KiB`);
    await again.close();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
