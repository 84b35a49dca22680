/** Ends a process when its parent has ended, so that the demo and tests leave no orphans even when killed. */

/** Makes the end of standard input act as SIGTERM when STEMMA_EXIT_WITH_STDIN is set. */
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
