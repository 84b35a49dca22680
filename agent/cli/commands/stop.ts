/** `stemma agent stop`: asks a running agent to end, and waits until it has. */
import type { Command } from "commander";
import { Output } from "../../../shared/cli/output.js";
import { exitStatus, isStemmaError, StemmaError } from "../../../shared/errors.js";
import { describeClaim, type OtherClaim } from "../../../shared/files/home-locked.js";
import { standingClaims } from "../../../shared/files/home-holder.js";
import { maxStopMs, type StopAnswer } from "../../control/stop-asked.js";
import { callRunningAgent, commonOptionsOf } from "../common-options.js";

interface StopChoices {
  readonly forUpdate: boolean;
  readonly wait: string;
}

interface Stopping {
  readonly home: string;
  readonly forUpdate: boolean;
  readonly waitMs: number;
  /** Tells a person what is waited for, whenever that changes. */
  readonly say: (text: string) => void;
}

/** Milliseconds between two looks at whether the agent has ended. */
const lookMs = 200;
/** Milliseconds of the wait that are for closing the home, at most half of it; a training may use the rest. */
const closingMs = 10_000;

/** @param onStatus gets the exit status of a command that found no agent */
export function addStop(program: Command, onStatus: (status: number) => void): void {
  program
    .command("stop")
    .description(
      `end the running agent in good order, and wait for that; exit status ${exitStatus.done}: it has ended, ${exitStatus.notFound}: none ran, ${exitStatus.timedOut}: it has not ended in time`,
    )
    .option(
      "--for-update",
      "before its program is replaced: a training ends first, or at its next saved state, and the service does not start it again",
      false,
    )
    .option("--wait <seconds>", "the longest that this waits", "60")
    .action(async ({ forUpdate, wait }: StopChoices, command: Command) => {
      const { home, output } = commonOptionsOf(command);
      const out = new Output(output);
      const say = (text: string): void => {
        out.info(text);
      };
      const wasRunning = await stopAgent({ home, forUpdate, waitMs: waitOf(wait), say });
      if (!wasRunning) onStatus(exitStatus.notFound);
      out.print({
        data: { home, outcome: wasRunning ? "stopped" : "not-running" },
        names: [wasRunning ? "stopped" : "not-running"],
        text: wasRunning ? `the agent of ${home} has ended` : `no agent runs with the home ${home}`,
      });
    });
}

function waitOf(text: string): number {
  const seconds = Number(text);
  if (text.trim() === "" || !(seconds > 0 && seconds * 1000 <= maxStopMs))
    throw new StemmaError(
      "USAGE",
      `--wait takes seconds, more than 0 and at most ${maxStopMs / 1000}; this is "${text}".`,
    );
  return seconds * 1000;
}

/**
 * Asks the agent of a home to end, and waits until no process has the home. Returns whether one had.
 * @throws TIMED_OUT naming what has not ended; the agent's own refusal
 */
async function stopAgent({ home, forUpdate, waitMs, say }: Stopping): Promise<boolean> {
  const deadlineMs = performance.now() + waitMs;
  const limitMs = Math.floor(waitMs - Math.min(closingMs, waitMs / 2));
  const request = { do: "stop", forUpdate, limitMs };
  const paths = new Set((await standingClaims(home)).map(({ path }) => path));
  let waitsFor: string | undefined;
  for (let wasRunning = false; ; wasRunning = true) {
    // Not one that a service started meanwhile.
    const holder = (await standingClaims(home)).find(({ path }) => paths.has(path));
    if (holder === undefined) return wasRunning;
    const leftMs = deadlineMs - performance.now();
    if (leftMs <= 0) throw tooSlow(holder, waitMs, waitsFor);
    const now = await askToStop(home, request, leftMs);
    if (now !== waitsFor && now !== undefined) say(`waiting for ${now}`);
    waitsFor = now;
    await new Promise((resolve) => setTimeout(resolve, lookMs));
  }
}

/** Asks, also again. Returns what the agent waits for; undefined where it does not answer (any more). */
async function askToStop(
  home: string,
  request: { readonly do: string },
  leftMs: number,
): Promise<string | undefined> {
  try {
    const { waitsFor } = (await callRunningAgent(home, "control", request, leftMs)) as StopAnswer;
    return waitsFor ?? "what is being written";
  } catch (error) {
    if (isStemmaError(error, "AGENT_UNREACHABLE") || isStemmaError(error, "TIMED_OUT")) return undefined;
    throw error;
  }
}

function tooSlow(holder: OtherClaim, waitMs: number, waitsFor: string | undefined): StemmaError {
  const what = waitsFor === undefined ? "It does not answer" : `It still waits for ${waitsFor}`;
  return new StemmaError(
    "TIMED_OUT",
    `${describeClaim(holder)} has not ended within ${waitMs / 1000} s. ${what}. Do not replace its program yet: it ends as soon as it can, so wait longer (--wait), or stop its service, which kills it in the end and loses nothing that was acknowledged.`,
  );
}
