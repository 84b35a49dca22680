/**
 * Crashes of the intake at any moment: every acknowledged sample is stored exactly once, and appending
 * continues.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Intake } from "../../../agent/intake/intake.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import type { Files } from "../../../shared/ports.js";
import { decodeSegment } from "../../../shared/train/datasets/sample-format.js";
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
  });
const batch = (number: number): unknown[] =>
  Array.from({ length: 1 + (number % 3) }, (_, at) => ({
    id: `s${number}-${at}`,
    label: number,
    values: new Array<number>(number % 4 === 0 ? 3000 : 5).fill(number),
  }));

async function found(files: Files): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const name of await files.list(folder))
    for (const { id } of decodeSegment(await files.read(`${folder}/${name}`)).samples)
      counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

it("keeps every acknowledged sample after a crash at any moment", { timeout: 600_000 }, async () => {
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
        }
        await intake.close();
      }
    },
    async check(files, marks) {
      const intake = await open(files);
      const before = await found(files);
      for (const id of marks) assert.equal(before.get(id), 1, `${id} is there ${before.get(id) ?? 0} times`);
      // Appending the same batches again, as a sender without a response does, adds only what is missing.
      for (let number = 0; number < 14; number++) await intake.append(batch(number));
      await intake.close();
      const after = await found(files);
      for (let number = 0; number < 14; number++)
        for (const one of batch(number)) assert.equal(after.get((one as { id: string }).id), 1);
    },
  });
});
