/**
 * Kills the agent process in the middle of coded transfers: each transfer resumes with the same bytes where
 * it stopped, and every model arrives exactly.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { tinyImport } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 20 : 2;
const program = fileURLToPath(new URL("./agent-child.js", import.meta.url));

it(`resumes with the same bytes after ${kills} kills in the middle of transfers`, async (t) => {
  const server = await startTestServer();
  const home = await mkdtemp(join(tmpdir(), "stemma-coded-"));
  t.after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const { operations } = server.handle;
  const { bytes, architecture } = await tinyImport("1", 30_000);
  await operations.import(
    {
      byteLength: bytes.length,
      chunks: Readable.from([bytes]),
    },
    { fleet: testFleet, name: "base", architecture },
  );
  await writeFile(join(home, "enrolment.json"), JSON.stringify(await server.enroll("v1", ["cam"])));
  await operations.assign({ fleet: testFleet, device: "v1", line: "cam", model: "base" });
  const settings = join(home, "test-settings.json");
  await writeFile(
    settings,
    JSON.stringify({
      config: {
        format: 1,
        lines: {
          cam: {
            recipe: "fake",
            dataset: { reader: "images-generated" },
            schedule: { everySeconds: 0.05, rounds: kills },
          },
        },
      },
      profile: {
        "link.blockBytes": 4096,
        "link.window": 2,
        "link.bytesPerSecond": 120_000,
        "link.coding": "always",
      },
    }),
  );

  let child: ChildProcess | undefined;
  const start = (): void => {
    child = spawn(process.execPath, [program, home, settings], { stdio: ["ignore", "ignore", "inherit"] });
  };
  t.after(() => {
    child?.kill("SIGKILL");
  });
  const stop = new AbortController();
  const killed = new Set<string>();
  const resumed = new Map<string, { readonly resumedBytes: number; readonly totalBytes: number }>();
  const totals = new Map<string, number>();
  const released = new Set<string>();
  const events = operations.events(stop.signal);
  start();
  for await (const event of events) {
    if (event.event === "transfer") {
      const share = event.bytes / event.totalBytes;
      totals.set(event.transfer, event.totalBytes);
      if (event.resumedBytes > 0) resumed.set(event.transfer, event);
      // Each transfer is interrupted once.
      if (share > 0.3 && share < 0.9 && !killed.has(event.transfer) && child !== undefined) {
        killed.add(event.transfer);
        const dying = child;
        dying.once("exit", () => {
          start();
        });
        dying.kill("SIGKILL");
      }
    }
    // The same release may be reported more than once, because a restarted device asks again.
    if (event.event === "released") released.add(event.versionId);
    if (released.size === kills) break;
  }
  stop.abort();
  const ended = new Promise((resolve) => {
    child?.once("exit", resolve);
  });
  child?.kill("SIGTERM");
  await ended;

  assert.ok(killed.size >= Math.min(kills, 2), `only ${killed.size} transfers were cut`);
  assert.equal(totals.size, kills, "one transfer a model: none was started from scratch");
  for (const transfer of killed) {
    const went = resumed.get(transfer);
    assert.ok(went !== undefined && went.resumedBytes > 0, "a cut transfer did not go on");
    assert.equal(went.totalBytes, totals.get(transfer));
  }
  for (const total of totals.values())
    assert.ok(total < 0.5 * 30_000 * 28, `${total} bytes are not a coded stream`);
  for (const model of released) await operations.verify({ fleet: testFleet, model });
  assert.deepEqual(
    (await readdir(join(home, "transfers"))).filter((name) => name.endsWith(".coded")),
    [],
  );
  console.log(
    `# ${killed.size} coded transfers cut, all gone on with: ${[...resumed.values()].map(({ resumedBytes, totalBytes }) => `${Math.round((100 * resumedBytes) / totalBytes)} %`).join(", ")} were there`,
  );
});
