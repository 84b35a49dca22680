/**
 * A process is killed repeatedly in the middle of saves and collections on a real disk. Everything that it
 * acknowledged stays.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { lockHome } from "../../../../shared/files/home-lock.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { testSeed } from "../../../helpers/crash-states.js";
import { seededNumbers } from "../../../helpers/manual-clock.js";
import { below } from "./kill-child.js";
import { checkSmall, type Ack } from "./small-repository.js";

const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 100 : 10;

/** Runs a child and kills it during the work after acknowledgement number `after`. */
async function killedChild(root: string, from: number, after: number, extraTurns: number): Promise<Ack[]> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL("./kill-child.js", import.meta.url)), root, String(from)],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const acks: Ack[] = [];
  const exited = new Promise<NodeJS.Signals | null>((resolve) => {
    child.on("exit", (_, signal) => {
      resolve(signal);
    });
  });
  for await (const line of createInterface({ input: child.stdout })) {
    acks.push(JSON.parse(line) as Ack);
    if (acks.length !== after) continue;
    for (let turn = 0; turn < extraTurns; turn++)
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    child.kill("SIGKILL");
  }
  assert.equal(await exited, "SIGKILL", "the child ended by itself");
  return acks;
}

it("keeps what a killed process had acknowledged, and its home can be opened immediately", async () => {
  const root = await mkdtemp(join(tmpdir(), "stemma-kill-"));
  const seed = testSeed();
  console.log(`# ${kills} kills, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  try {
    const acks: Ack[] = [];
    for (let kill = 0; kill < kills; kill++) {
      acks.push(
        ...(await killedChild(
          root,
          1000 + kill * 60,
          1 + Math.floor(random() * 25),
          Math.floor(random() * 200),
        )),
      );
      const lock = await lockHome(root);
      await checkSmall(below(root, nodeFiles()), acks, kill + 1);
      await lock.release();
    }
    assert.ok(acks.filter(({ what }) => what === "saved").length > kills);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});
