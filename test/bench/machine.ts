/** The machine, the date and the commit of a report. */
import { execFileSync } from "node:child_process";
import { cpus, totalmem } from "node:os";

/** A sentence. The commit is left out where this is no checkout with Git. */
export function machineLine(): string {
  const [processor] = cpus();
  const memory = Math.round(totalmem() / 2 ** 30);
  const parts = [
    `${cpus().length} × ${processor?.model.trim() ?? process.arch}`,
    `${memory} GiB`,
    `Node ${process.version}`,
    new Date().toISOString().slice(0, 10),
    ...commit(),
  ];
  return `Measured on ${parts.join(", ")}.`;
}

function commit(): readonly string[] {
  try {
    const id = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return [`commit ${id.trim()}`];
  } catch {
    return [];
  }
}
