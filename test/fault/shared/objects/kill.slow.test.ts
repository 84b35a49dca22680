/**
 * A process is killed repeatedly in the middle of saves, collections and merges on a real disk. Everything that it
 * acknowledged stays.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { lockHome } from "../../../../shared/files/home-lock.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { below, type Line } from "./kill-child.js";
import { checkSmall, type Ack } from "./small-repository.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const kills = isFull ? 100 : 10;
const mergeKills = isFull ? 25 : 2;

interface Killing {
  readonly root: string;
  /** Number of the child's first save. */
  readonly from: number;
  readonly work: "collecting" | "merging";
  /** The child is killed after this many of its lines that `counts` accepts, and some turns of this process. */
  readonly after: number;
  readonly extraTurns: number;
  readonly counts: (line: Line) => boolean;
}

/** Runs a child and kills it during its work. Returns the lines that it printed. */
async function killedChild({ root, from, work, after, extraTurns, counts }: Killing): Promise<Line[]> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL("./kill-child.js", import.meta.url)), root, String(from), work],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const lines: Line[] = [];
  let counted = 0;
  const exited = new Promise<NodeJS.Signals | null>((resolve) => {
    child.on("exit", (_, signal) => {
      resolve(signal);
    });
  });
  for await (const text of createInterface({ input: child.stdout })) {
    const line = JSON.parse(text) as Line;
    lines.push(line);
    if (!counts(line) || ++counted !== after) continue;
    for (let turn = 0; turn < extraTurns; turn++)
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    child.kill("SIGKILL");
  }
  assert.equal(await exited, "SIGKILL", "the child ended by itself");
  return lines;
}

/** Kills children one after the other in one home, and checks it after each. */
async function killRepeatedly(
  count: number,
  killing: (random: () => number) => Omit<Killing, "root" | "from">,
  onKilled: (lines: readonly Line[]) => void = () => undefined,
): Promise<readonly Ack[]> {
  const root = await mkdtemp(join(tmpdir(), "stemma-kill-"));
  const seed = testSeed();
  console.log(`# ${count} kills, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const acks: Ack[] = [];
  try {
    for (let kill = 0; kill < count; kill++) {
      const lines = await killedChild({ ...killing(random), root, from: 1000 + kill * 60 });
      onKilled(lines);
      acks.push(...lines.filter((line): line is Ack => line.what !== "merging" && line.what !== "merged"));
      const lock = await lockHome(root);
      await checkSmall(below(root, nodeFiles()), acks, kill + 1);
      await lock.release();
    }
  } finally {
    await rm(root, { recursive: true, force: true });
  }
  return acks;
}

it("keeps what a killed process had acknowledged, and its home can be opened immediately", async () => {
  const acks = await killRepeatedly(kills, (random) => ({
    work: "collecting",
    after: 1 + Math.floor(random() * 25),
    extraTurns: Math.floor(random() * 200),
    counts: () => true,
  }));
  assert.ok(acks.filter(({ what }) => what === "saved").length > kills);
});

it("loses nothing when a process is killed while it merges packs", async () => {
  let inMerge = 0;
  await killRepeatedly(
    mergeKills,
    (random) => ({
      work: "merging",
      after: 1 + Math.floor(random() * 2),
      extraTurns: Math.floor(random() * 120),
      counts: ({ what }) => what === "merging",
    }),
    (lines) => {
      const last = lines.findLast(({ what }) => what === "merging" || what === "merged");
      if (last?.what === "merging") inMerge++;
    },
  );
  console.log(`# ${inMerge} of ${mergeKills} kills in the middle of a merge`);
  if (isFull) assert.ok(inMerge >= mergeKills / 8, `only ${inMerge} of ${mergeKills} kills were in a merge`);
});
