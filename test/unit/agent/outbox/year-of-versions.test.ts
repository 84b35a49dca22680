/**
 * A year of hourly versions and more, counted in calls and bytes of the file port: what a start reads, what a receipt
 * writes and what a status contains do not grow with the age of a device.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import type { AgentFact } from "../../../../agent/outbox/agent-fact.js";
import { lineStatus } from "../../../../agent/status.js";
import type { Files } from "../../../../shared/ports.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { depth } from "../../../helpers/test-depth.js";
import { withOverrides } from "../../../helpers/with-overrides.js";
import { id, receipt, saved } from "./facts.js";

/** A journal of so many versions would be several times as long as the bound if it were never made short. */
const versions = depth(6_000, 20_000);
/** Versions whose facts are written together, to save the test's time. */
const batch = 20;

const open = (files: Files): Promise<Outbox> =>
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

it("keeps the journal of thousands of versions as short as that of a few days", async () => {
  const files = memoryFiles();
  let outbox = await open(files);
  const journalBytes: number[] = [];
  for (let number = batch; number <= versions; number += batch) {
    const numbers = Array.from({ length: batch }, (_, at) => number - batch + 1 + at);
    await outbox.append(...numbers.flatMap(factsOf));
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

interface Cost {
  calls: number;
  bytes: number;
}

/** Counts reads, writes and fsyncs of files, and the bytes of reads and writes. */
function countingFiles(files: Files, cost: Cost): Files {
  const count = (bytes: number): void => {
    cost.calls++;
    cost.bytes += bytes;
  };
  return withOverrides(files, {
    open: async (path, mode) => {
      const file = await files.open(path, mode);
      return withOverrides(file, {
        read: async (target, position) => {
          const bytes = await file.read(target, position);
          count(bytes);
          return bytes;
        },
        write: async (bytes, position) => {
          count(bytes.length);
          await file.write(bytes, position);
        },
        sync: async () => {
          count(0);
          await file.sync();
        },
      });
    },
    read: async (path) => {
      const bytes = await files.read(path);
      count(bytes.length);
      return bytes;
    },
  });
}

it("starts, takes a receipt and states its status after a year at the cost of its first quarter", async () => {
  const cost: Cost = { calls: 0, bytes: 0 };
  const files = countingFiles(memoryFiles(), cost);
  const spent = async (action: () => Promise<unknown>): Promise<Cost> => {
    const before = { ...cost };
    await action();
    return { calls: cost.calls - before.calls, bytes: cost.bytes - before.bytes };
  };
  let outbox = await open(files);
  const probes: { day: number; start: Cost; receipt: Cost; status: number }[] = [];
  for (let day = 1; day <= 365; day++) {
    const facts = Array.from({ length: 24 }, (_, hour) => factsOf(24 * (day - 1) + hour + 1)).flat();
    if (day > 3 && day % 30 !== 0 && day !== 365) {
      await outbox.append(...facts);
      continue;
    }
    const isReceipt = ({ type }: AgentFact): boolean => type === "receipt";
    const last = facts.findLastIndex(isReceipt);
    await outbox.append(...facts.slice(0, last));
    await outbox.close();
    const start = await spent(async () => (outbox = await open(files)));
    const [one, ...others] = facts.slice(last);
    const receiptCost = await spent(() => outbox.append(one as AgentFact));
    await outbox.append(...others);
    const status = lineStatus(outbox.state, "cam", () => undefined, {
      samples: null,
      standstill: null,
      lastFailure: null,
      trial: null,
    });
    probes.push({ day, start, receipt: receiptCost, status: JSON.stringify(status).length });
  }
  await outbox.close();
  const quarter = probes.filter(({ day }) => day <= 90);
  const max = (of: (probe: (typeof probes)[number]) => number, some: typeof probes): number =>
    Math.max(...some.map(of));
  // A start reads the facts since the last compaction, which may be any number up to its threshold.
  for (const [what, of, factor] of [
    ["calls of a start", ({ start }) => start.calls, 1],
    ["bytes of a start", ({ start }) => start.bytes, 1.5],
    ["calls of a receipt", ({ receipt: { calls } }) => calls, 1],
    // Numbers get more digits.
    ["bytes of a receipt", ({ receipt: { bytes } }) => bytes, 1.05],
    ["length of a status", ({ status }) => status, 1.05],
  ] satisfies [string, (probe: (typeof probes)[number]) => number, number][])
    assert.ok(max(of, probes) <= factor * max(of, quarter), `${what}: ${JSON.stringify(probes.map(of))}`);
});
