/** What a command costs in a process of its own. */
import { spawnSync } from "node:child_process";

export interface CommandCost {
  readonly ms: number;
  readonly processorMs: number;
  readonly residentBytes: number;
  /** Bytes of its output. */
  readonly printedBytes: number;
}

/** Prints what the process used to its third output when it ends. */
const reporting = `import { writeSync } from "node:fs";
process.on("exit", () => {
  const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
  writeSync(3, JSON.stringify({ processorMs: (userCPUTime + systemCPUTime) / 1000, residentBytes: maxRSS * 1024 }));
});`;

/** Runs Node with these arguments. @throws Error where it does not end with 0 */
export function costOf(args: readonly string[], cwd?: string): CommandCost {
  const startedMs = performance.now();
  const { status, stdout, stderr, output } = spawnSync(
    process.execPath,
    [`--import=data:text/javascript,${encodeURIComponent(reporting)}`, ...args],
    { stdio: ["ignore", "pipe", "pipe", "pipe"], maxBuffer: 2 ** 30, cwd },
  );
  const ms = performance.now() - startedMs;
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr.toString()}`);
  const used = JSON.parse(String(output[3])) as Pick<CommandCost, "processorMs" | "residentBytes">;
  return { ms, ...used, printedBytes: stdout.length };
}
