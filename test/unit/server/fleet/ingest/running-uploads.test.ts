/** Uploads that are received now, and what those of one device share. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IncomingUpload } from "../../../../../server/fleet/ingest/uploads/incoming-upload.js";
import { RunningUploads } from "../../../../../server/fleet/ingest/uploads/running-uploads.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const upload = (device: string, versionId: Hash): IncomingUpload =>
  ({ device, versionId, transfer: `of ${versionId}` }) as unknown as IncomingUpload;
const [idA, idB] = [sha256("a"), sha256("b")];

test("uploads of one device share one window while its link is slow, and no other device's", () => {
  const running = new RunningUploads(1024);
  const first = running.slowBudgetOf("van-1");
  running.add(upload("van-1", idA));
  assert.equal(running.slowBudgetOf("van-1"), first);
  running.add(upload("van-1", idB));
  assert.equal(running.slowBudgetOf("van-1"), first);
  assert.notEqual(running.slowBudgetOf("van-2"), first);
  assert.equal(first.totalBytes, 2 * 1024);
});

test("an upload is found by its version and its device's transfer until it ends", () => {
  const running = new RunningUploads(1024);
  const [a, b] = [upload("van-1", idA), upload("van-2", idB)];
  running.add(a);
  running.add(b);
  assert.equal(running.byTransfer("van-1", `of ${idA}`), a);
  assert.equal(running.byTransfer("van-2", `of ${idA}`), undefined);
  assert.deepEqual([running.count, running.countOf("van-1"), running.countOf("van-3")], [2, 1, 0]);
  running.remove(a);
  assert.deepEqual([running.has(idA), running.get(idB), [...running.of("van-1")]], [false, b, []]);
  assert.deepEqual([...running.all()], [b]);
});
