/**
 * Counts how often each block of Stemma's code runs between two turns of the event loop. No time is measured, so that
 * no machine is too slow.
 */
import { Session, type Profiler } from "node:inspector";
import { relative, sep } from "node:path";
import { fileURLToPath } from "node:url";

const built = fileURLToPath(new URL("../..", import.meta.url));

/** Runs `work` in this process. Returns for each source file the most often that one of its blocks ran in one turn. */
export async function largestSteps(work: () => Promise<unknown>): Promise<ReadonlyMap<string, number>> {
  const session = new Session();
  session.connect();
  const largest = new Map<string, number>();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  const take = (): void => {
    // Answered within the call: the session is this thread's own.
    session.post("Profiler.takePreciseCoverage", (_, { result }) => {
      for (const script of result) note(largest, script);
    });
  };
  let isDone = false;
  const counting = (async () => {
    while (!isDone) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      take();
    }
  })();
  try {
    take();
    await work();
  } finally {
    isDone = true;
    await counting;
    session.disconnect();
  }
  return largest;
}

function note(largest: Map<string, number>, { url, functions }: Profiler.ScriptCoverage): void {
  if (!url.startsWith("file:")) return;
  const path = relative(built, fileURLToPath(url)).split(sep).join("/");
  if (!/^(server|shared|agent)\//.test(path)) return;
  const file = path.replace(/\.js$/, ".ts");
  for (const { ranges } of functions)
    for (const { count } of ranges) if (count > (largest.get(file) ?? 0)) largest.set(file, count);
}
