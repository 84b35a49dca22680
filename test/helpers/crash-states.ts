/**
 * Runs a workload on recorded files, then opens the disks that a crash at any moment could have left
 * (files/crash-states.ts). Used for everything durable: packs, journal, outbox, intake. A fifth of the states
 * crash a second time, while they are being opened and repaired.
 */
import { stackOf } from "../../shared/error-text.js";
import { randomInt } from "node:crypto";
import {
  crashState,
  crashStates,
  crashStyles,
  type CrashState,
  type CrashStyle,
} from "./files/crash-states.js";
import { memoryFiles } from "./files/memory-files.js";
import { recordingFiles } from "./files/recording-files.js";
import type { Files } from "../../shared/ports.js";
import { seededNumbers } from "./manual-clock.js";

export interface CrashTest<Mark> {
  readonly name: string;
  /** Does the work. Calls `mark` when something is acknowledged, and when something starts where that matters. */
  run(files: Files, mark: (mark: Mark) => void): Promise<void>;
  /** Opens what the crash left. Throws unless everything marked is present and complete. */
  check(files: Files, marks: readonly Mark[]): Promise<void>;
  /** Default: STEMMA_TEST_STATES, else 10,000 with STEMMA_TEST_FULL=1, else 60. */
  readonly states?: number;
  /** Default: STEMMA_TEST_SEED, else random and printed. */
  readonly seed?: number;
}

export interface CrashTestResult {
  readonly seed: number;
  readonly states: number;
  readonly events: number;
  readonly secondCrashes: number;
}

/** How many crash states the long tests check. */
export function crashStateCount(): number {
  return Number(process.env["STEMMA_TEST_STATES"] ?? (process.env["STEMMA_TEST_FULL"] === "1" ? 10_000 : 60));
}

export function testSeed(): number {
  return Number(process.env["STEMMA_TEST_SEED"] ?? randomInt(2 ** 32));
}

/** Opens the state on recorded files, crashes again at a random moment, and checks what the second crash left. */
async function checkTwice<Mark>(
  test: CrashTest<Mark>,
  state: CrashState,
  random: () => number,
): Promise<string> {
  const disk = recordingFiles(memoryFiles({ root: state.root }), state.root);
  await test.check(disk, state.marks as Mark[]);
  const style = crashStyles[Math.floor(random() * crashStyles.length)] as CrashStyle;
  const secondState = crashState(
    disk.recording,
    Math.floor(random() * (disk.recording.events + 1)),
    style,
    Math.floor(random() * 2 ** 32),
  );
  try {
    await test.check(secondState.files, state.marks as Mark[]);
  } catch (error) {
    throw new Error(`second crash: ${secondState.description}: ${String(error)}`, { cause: error });
  }
  return secondState.description;
}

/** Runs the workload once and checks the states. Prints the seed; an error describes how to rebuild the state. */
export async function checkCrashStates<Mark>(test: CrashTest<Mark>): Promise<CrashTestResult> {
  const { seed = testSeed(), states = crashStateCount() } = test;
  const disk = recordingFiles(memoryFiles());
  await test.run(disk, (mark) => disk.mark(mark));
  const random = seededNumbers(seed ^ 0x5eed);
  let secondCrashes = 0;
  console.log(
    `# ${test.name}: ${states} crash states over ${disk.recording.events} events, STEMMA_TEST_SEED=${seed}`,
  );
  for (const state of crashStates(disk.recording, seed, states)) {
    try {
      if (random() < 0.2) {
        secondCrashes++;
        await checkTwice(test, state, random);
      } else await test.check(state.files, state.marks as Mark[]);
    } catch (error) {
      throw new Error(`${test.name}: ${state.description} (STEMMA_TEST_SEED=${seed}): ${stackOf(error)}`, {
        cause: error,
      });
    }
  }
  return { seed, states, events: disk.recording.events, secondCrashes };
}
