/**
 * Crashes of the intake at any moment: every acknowledged sample is stored exactly once, removed ones
 * stay removed, and appending continues.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Intake } from "../../../agent/intake/intake.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import type { Files } from "../../../shared/ports.js";
import { decodeSegment, samplesOf } from "../../../shared/train/datasets/sample-format.js";
import { testProfile } from "../../helpers/agent-fixtures.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { manualClock } from "../../helpers/manual-clock.js";

const folder = "/home/agent/samples/cam";
const open = (files: Files): Promise<Intake> =>
  Intake.open({
    files,
    folder,
    line: "cam",
    limits: testProfile().samples,
    clock: manualClock(),
    log: silentLog(),
    pins: () => [],
    neededForm: () => Promise.resolve({}),
  });
const batch = (number: number): unknown[] =>
  Array.from({ length: 1 + (number % 3) }, (_, at) => ({
    id: `s${number}-${at}`,
    label: number,
    values: new Array<number>(1000).fill(number + at / 4),
  }));

/** Removed in the second life: of a file of the first life, and of the one that is being written. */
const removedIds = ["s1-0", "s5-0", "s6-0"];

const kept = (number: number): unknown[] =>
  batch(number).filter((one) => !removedIds.includes((one as { id: string }).id));

async function found(files: Files): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const name of await files.list(folder))
    for (const { id } of samplesOf(decodeSegment(await files.read(`${folder}/${name}`))))
      counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

it("keeps every acknowledged sample and no removed one after a crash at any moment", async () => {
  await checkCrashStates<string>({
    name: "intake",
    async run(files, mark) {
      await files.makeFolder(folder);
      for (const parent of ["/home/agent/samples", "/home/agent", "/home", "/"])
        await files.syncFolder(parent);
      for (let life = 0; life < 3; life++) {
        const intake = await open(files);
        for (let number = life * 4; number < life * 4 + 4; number++) {
          await intake.append(batch(number));
          for (const one of batch(number)) mark((one as { id: string }).id);
          if (number !== 6) continue;
          mark("removing");
          await intake.remove({ ids: removedIds });
          mark("removed");
        }
        await intake.close();
      }
    },
    async check(files, marks) {
      const intake = await open(files);
      const before = await found(files);
      for (const id of marks.filter((mark) => !mark.startsWith("remov"))) {
        const count = before.get(id) ?? 0;
        if (!removedIds.includes(id) || !marks.includes("removing"))
          assert.equal(count, 1, `${id} is there ${count} times`);
        else assert.ok(count <= (marks.includes("removed") ? 0 : 1), `${id} is there ${count} times`);
      }
      // Appending the same batches again, as a sender without a response does, adds only what is missing.
      for (let number = 0; number < 14; number++) await intake.append(kept(number));
      await intake.close();
      const after = await found(files);
      for (let number = 0; number < 14; number++)
        for (const one of kept(number)) assert.equal(after.get((one as { id: string }).id), 1);
    },
  });
});
