/**
 * What the tests of this process wait for. A wait has no limit of its own, because a busy machine would turn it red:
 * the runner ends a file that takes too long. What had not come is printed before, and where nothing is left to run.
 */
const waits = new Set<() => string>();
/** Longer than any wait takes here, and well below the runner's limit for a file, after which it shows nothing. */
const noticeMs = 120_000;

function say(describe: () => string): void {
  process.stderr.write(`still waiting for ${describe()}\n`);
}

let isReporting = false;
function reportAtTheEnd(): void {
  if (isReporting) return;
  isReporting = true;
  process.on("exit", () => {
    for (const describe of waits) say(describe);
  });
}

/**
 * Waits for a promise that may never settle.
 * @param describe says what is awaited, and what came instead; called when it has not come for long
 */
export async function awaiting<T>(describe: () => string, promise: Promise<T>): Promise<T> {
  reportAtTheEnd();
  waits.add(describe);
  const notice = setTimeout(say, noticeMs, describe).unref();
  try {
    return await promise;
  } finally {
    clearTimeout(notice);
    waits.delete(describe);
  }
}
