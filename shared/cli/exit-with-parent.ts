/**
 * Ends a process whose parent has gone: started by the demo or a test, it leaves no orphan even when the
 * parent is killed.
 */

/** When STEMMA_EXIT_WITH_STDIN is set, the end of standard input is taken for SIGTERM. */
export function exitWithParent(environment: NodeJS.ProcessEnv = process.env): void {
  if (environment["STEMMA_EXIT_WITH_STDIN"] !== "1") return;
  process.stdin.on("end", () => {
    process.kill(process.pid, "SIGTERM");
  });
  process.stdin.on("error", () => {
    process.kill(process.pid, "SIGTERM");
  });
  process.stdin.resume();
}
