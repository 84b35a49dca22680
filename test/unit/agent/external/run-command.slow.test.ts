/** A program that prints without end costs the agent no memory. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { measureKind, runCommand } from "../../../../shared/programs/run-command.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";

it("a gigabyte on both outputs is read in bounded memory", async () => {
  const before = process.memoryUsage().rss;
  let longest = 0;
  let most = 0;
  await runCommand(
    {
      kind: measureKind,
      exec: ["/bin/sh", "-c", "head -c 1G /dev/zero >&2; yes | head -c 1000000; head -c 1G /dev/zero"],
      folder: "/",
      environment: { PATH: "/usr/bin:/bin" },
      watched: { folders: [], maxBytes: 1 },
      timeoutSeconds: 600,
    },
    {
      clock: nodeClock(),
      signal: new AbortController().signal,
      onLine: (line) => {
        longest = Math.max(longest, line.length);
        most = Math.max(most, process.memoryUsage().rss);
      },
      onStarted: () => Promise.resolve(),
    },
  );
  most = Math.max(most, process.memoryUsage().rss);
  assert.equal(longest, 1);
  assert.ok(most - before < 256 * 1024 * 1024, `${most - before}`);
});
