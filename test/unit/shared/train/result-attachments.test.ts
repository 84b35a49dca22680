/** What a training attaches to its version fits what a device may report. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { attachmentsOf, maxAttachmentBytes } from "../../../../shared/train/result-attachments.js";
import { metadataOfResult } from "../../../../shared/train/result-metadata.js";
import { ingestLimitsSchema } from "../../../../server/ingest/limits.js";
import type { TrainingResult } from "../../../../shared/train/training.js";

const MiB = 2 ** 20;
/** Files whose size in MiB is the number in their name. */
const files = {
  size: (path: string) => Promise.resolve(Number(/(\d+)MiB/.exec(path)?.[1]) * MiB),
  read: (path: string) => Promise.resolve(new TextEncoder().encode(path)),
};

const checkpointsOf = (paths: readonly string[]): { epoch: number; iteration: number; file: string }[] =>
  paths.map((file, at) => ({ epoch: at + 1, iteration: at + 1, file }));

it("keeps the optimizer's state and the newest checkpoints that fit, and names what it drops", async () => {
  const files5 = [1, 2, 3, 4, 5].map((number) => `/result/checkpoint-${number}-14MiB`);
  const checkpoints = checkpointsOf(files5);
  const five = await attachmentsOf({ checkpoints, optimizerFile: undefined }, files);
  assert.deepEqual(
    five.attachments.map(({ name }) => name),
    ["checkpoint-5-14MiB", "checkpoint-4-14MiB", "checkpoint-3-14MiB"],
  );
  assert.deepEqual(five.dropped, ["checkpoint-2-14MiB", "checkpoint-1-14MiB"]);
  const withState = await attachmentsOf({ checkpoints, optimizerFile: "/result/optimizer-28MiB" }, files);
  assert.deepEqual(
    withState.attachments.map(({ name }) => name),
    ["optimizer-28MiB", "checkpoint-5-14MiB"],
  );
  const none = await attachmentsOf({ checkpoints: [], optimizerFile: undefined }, files);
  assert.deepEqual(none, { attachments: [], dropped: [] });
  const many = Array.from({ length: 300 }, (_, at) => `/result/${at}-0MiB`);
  const kept = await attachmentsOf({ checkpoints: checkpointsOf(many), optimizerFile: undefined }, files);
  assert.ok(kept.attachments.length <= 256, "a record names at most 256 attachments");
  assert.ok(maxAttachmentBytes + 8 * MiB <= ingestLimitsSchema.parse({}).maxObjectBytes);
  const result = { metric: {}, samples: {} } as unknown as TrainingResult;
  assert.equal(metadataOfResult(result, five.dropped)["training.attachmentsDropped"], 2);
  assert.ok(!("training.attachmentsDropped" in metadataOfResult(result)));
});
