/** A year of hourly versions and more: what the outbox reads at its start, and writes for a receipt, stays the same. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { id, receipt, saved } from "./facts.js";

const versions = 20_000;

const open = (files: ReturnType<typeof memoryFiles>): Promise<Outbox> =>
  Outbox.open({
    files,
    folder: "/home/outbox",
    clock: manualClock(),
    random: seededRandom("year"),
    log: silentLog(),
  });

/** The facts of one version, as a device has them that forgets the version before it. */
function factsOf(number: number): readonly AgentFact[] {
  const backedUpTo = Math.max(0, number - 24);
  return [
    { type: "training", atMs: number, line: "cam", invocation: number, because: "clock", samplesEnd: number },
    saved(number),
    receipt(number, "recorded", number, backedUpTo),
    {
      type: "activated",
      atMs: number,
      versionId: id(number),
      line: "cam",
      clockErrorMs: null,
      session: 1,
    },
    receipt(number, "released", number, backedUpTo),
    ...(number === 1 ? [] : [{ type: "forgotten", atMs: number, versionId: id(number - 1) } as const]),
  ];
}

it("keeps the journal of 20,000 versions as short as that of a few days", { timeout: 300_000 }, async () => {
  const files = memoryFiles();
  let outbox = await open(files);
  const journalBytes: number[] = [];
  for (let number = 1; number <= versions; number++) {
    await outbox.append(...factsOf(number));
    if (number % 1000 !== 0) continue;
    // A start: nothing is lost, and the journal that it reads is short.
    await outbox.close();
    outbox = await open(files);
    const { state } = outbox;
    assert.deepEqual([...state.entries.keys()], [id(number)]);
    const line = state.lines.get("cam");
    assert.deepEqual([line?.sequence, line?.trainings, line?.newestRun], [number, number, number]);
    assert.ok(state.receipts.size <= 24, `${state.receipts.size} receipts`);
    journalBytes.push((await outbox.bytes()).journal);
  }
  await outbox.close();
  const [first = 0] = journalBytes;
  // At most as many facts again as the state itself takes; activations of the last thousand versions stay.
  assert.ok(Math.max(...journalBytes) < 2 * 2 ** 20, `${journalBytes.join(", ")} bytes`);
  assert.ok(first > 0);
});
