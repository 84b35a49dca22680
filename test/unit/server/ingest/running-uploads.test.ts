/** Uploads that are received now, and what those of one device share. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { IncomingUpload } from "../../../../server/ingest/incoming-upload.js";
import { RunningUploads } from "../../../../server/ingest/running-uploads.js";

const upload = (device: string, versionId: string): IncomingUpload =>
  ({ device, versionId, transfer: `of ${versionId}` }) as unknown as IncomingUpload;

test("uploads of one device share one window while its link is slow, and no other device's", () => {
  const running = new RunningUploads(1024);
  const first = running.slowBudgetOf("van-1");
  running.add(upload("van-1", "a"));
  assert.equal(running.slowBudgetOf("van-1"), first);
  running.add(upload("van-1", "b"));
  assert.equal(running.slowBudgetOf("van-1"), first);
  assert.notEqual(running.slowBudgetOf("van-2"), first);
  assert.equal(first.totalBytes, 2 * 1024);
});

test("an upload is found by its version and its device's transfer until it ends", () => {
  const running = new RunningUploads(1024);
  const [a, b] = [upload("van-1", "a"), upload("van-2", "b")];
  running.add(a);
  running.add(b);
  assert.equal(running.byTransfer("van-1", "of a"), a);
  assert.equal(running.byTransfer("van-2", "of a"), undefined);
  assert.deepEqual([running.count, running.countOf("van-1"), running.countOf("van-3")], [2, 1, 0]);
  running.remove(a);
  assert.deepEqual([running.has("a"), running.get("b"), [...running.of("van-1")]], [false, b, []]);
  assert.deepEqual([...running.all()], [b]);
});
