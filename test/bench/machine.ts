/** The machine, the date and the commit of a report. */
import { execFileSync } from "node:child_process";
import { cpus, totalmem } from "node:os";

/**
 * A sentence. The commit is left out where this is not a checkout with Git.
 * @param days of the measurement, first and last; default: today
 */
export function machineLine(days: readonly string[] = [today()]): string {
  const commit = commitHere();
  const parts = [machineName(), days.join(" to "), ...(commit === undefined ? [] : [`commit ${commit}`])];
  return `Measured on ${parts.join(", ")}.`;
}

/** Processors, memory and Node. */
export function machineName(): string {
  const [processor] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${processor?.model.trim() ?? process.arch}, ${memory} GiB, Node ${process.version}`;
}

export function today(): string {
  return new Date().toISOString().slice(0, 10);
}

/** Twelve digits; undefined where this is not a checkout with Git. */
export function commitHere(): string | undefined {
  return git(["rev-parse", "--short=12", "HEAD"])?.trim();
}

/** Whether files of the program or of its benchmarks differ from the commit. */
export function isCodeChanged(): boolean {
  const code = ["server", "shared", "agent", "launcher", "test", "package.json", "package-lock.json"];
  return git(["status", "--porcelain", "--", ...code]) !== "";
}

function git(args: readonly string[]): string | undefined {
  try {
    return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}
