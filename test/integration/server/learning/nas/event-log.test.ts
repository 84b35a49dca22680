/** The log of a search or an evaluation, to which several trainings write at the same time. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as z from "zod";
import { EventLog } from "../../../../../server/learning/nas/event-log.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";

test("events that are written at the same time are all there when the log is opened again", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-events-"));
  const kind = { schema: z.number(), damaged: (path: string, why: string) => new Error(`${path}: ${why}`) };
  const open = (): Promise<EventLog<number>> => EventLog.open(nodeFiles(), join(folder, "log.jsonl"), kind);
  const log = await open();
  const numbers = Array.from({ length: 20 }, (_, at) => at);
  await Promise.all(numbers.map((each) => log.append(each)));
  assert.deepEqual(log.events, numbers);
  assert.deepEqual((await open()).events, numbers);
  await rm(folder, { recursive: true });
});
