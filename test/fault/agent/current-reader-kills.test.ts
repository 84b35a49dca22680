/**
 * Runs the documented reader in a loop while the writer is killed repeatedly: it never reads two versions
 * mixed.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { readCurrent } from "../../../agent/current/read-current.js";
import { testSeed } from "../../helpers/crash-states.js";
import { seededNumbers } from "../../helpers/manual-clock.js";

const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 100 : 4;
const program = fileURLToPath(new URL("./current-writer-child.js", import.meta.url));

/**
 * Runs a writer until it has switched `switches` times, then kills it at whatever it is doing. Returns the
 * last number that it reported.
 */
async function writeAndKill(home: string, from: number, switches: number): Promise<number> {
  const child = spawn(process.execPath, [program, home, String(from)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => {
    child.once("close", resolve);
  });
  let last = from;
  let seen = 0;
  for await (const chunk of child.stdout) {
    for (const line of String(chunk).trim().split("\n")) last = Math.max(last, Number(line));
    if (++seen >= switches) child.kill("SIGKILL");
  }
  await ended;
  return last;
}

it("never mixes two versions, whenever the writer is killed", async (t) => {
  const seed = testSeed();
  console.log(`# ${kills} kills of the writer, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const home = await mkdtemp(join(tmpdir(), "stemma-reader-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  let writing = true;
  const numbers = new Set<string>();
  let reads = 0;
  const reader = (async () => {
    while (writing) {
      const current = await readCurrent(home, "cam").catch((error: unknown) => {
        if ((error as { code?: string }).code !== "ENOENT" || numbers.size > 0) throw error;
        return undefined;
      });
      if (current === undefined) {
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
        continue;
      }
      const number = Number(current.manifest.name);
      for (const name of Object.keys(current.manifest.files))
        assert.ok(
          (await current.read(name)).every((byte) => byte === (number & 0xff)),
          `${name} of version ${number} has bytes of another`,
        );
      numbers.add(current.manifest.name);
      reads++;
    }
  })();
  let next = 0;
  for (let kill = 0; kill < kills; kill++)
    next = 1 + (await writeAndKill(home, next, 1 + Math.floor(random() * 6)));
  writing = false;
  await reader;
  assert.ok(numbers.size > 1, "the reader saw several versions");
  console.log(`# ${reads} reads of ${numbers.size} versions while ${next} were written`);
});
