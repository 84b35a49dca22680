/**
 * Kills the agent repeatedly while it trains, reports and switches models against the real server. Nothing
 * that it saved is lost, nothing is counted twice, and in the end the server has every model completely.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { readCurrent } from "../../../agent/current/read-current.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { tinyImport } from "../../helpers/agent-fixtures.js";
import { testSeed } from "../../helpers/crash-states.js";
import { seededNumbers } from "../../helpers/manual-clock.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const kills = process.env["STEMMA_TEST_FULL"] === "1" ? 100 : 1;
const program = fileURLToPath(new URL("./agent-child.js", import.meta.url));
const lines = ["cam", "pack"];

interface Seen {
  readonly event: string;
  readonly versionId?: Hash;
}

/** Starts an agent; `onEvent` gets all its output. */
function start(
  home: string,
  settings: string,
  onEvent: (seen: Seen) => void,
): { readonly child: ChildProcess; readonly ended: Promise<NodeJS.Signals | number | null> } {
  const child = spawn(process.execPath, [program, home, settings], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<NodeJS.Signals | number | null>((resolve) => {
    child.once("close", (code, signal) => {
      resolve(signal ?? code);
    });
  });
  if (child.stdout !== null)
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (process.env["STEMMA_TEST_LOG"] === "1") console.error(line);
      onEvent(JSON.parse(line) as Seen);
    });
  return { child, ended };
}

it("loses nothing it saved, whenever it is killed", async (t) => {
  const seed = testSeed();
  console.log(`# ${kills} kills of the agent, STEMMA_TEST_SEED=${seed}`);
  const random = seededNumbers(seed);
  const server = await startTestServer();
  const home = await mkdtemp(join(tmpdir(), "stemma-killed-"));
  t.after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  for (const [at, line] of lines.entries()) {
    const { bytes, architecture } = await tinyImport(String(at + 1), 1500);
    await server.handle.operations.import(
      { byteLength: bytes.length, chunks: Readable.from([bytes]) },
      { fleet: testFleet, name: `base-${line}`, architecture },
    );
  }
  const enrolment = await server.enroll("v1", lines);
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  for (const line of lines)
    await server.handle.operations.assign({ fleet: testFleet, device: "v1", line, model: `base-${line}` });
  const settings = join(home, "test-settings.json");
  const lineSettings = (rounds: number): object => ({
    recipe: "fake",
    dataset: { reader: "images-generated" },
    schedule: { everySeconds: 0.05, rounds },
  });
  const write = async (rounds: number): Promise<void> =>
    writeFile(
      settings,
      JSON.stringify({
        config: { format: 1, lines: Object.fromEntries(lines.map((line) => [line, lineSettings(rounds)])) },
        profile: {
          activation: "after-outbox",
          "link.blockBytes": 4096,
          "link.window": 2,
          "link.bytesPerSecond": 400_000,
          "disk.keepLast": 2,
        },
      }),
    );
  await write(100_000);

  const trained = new Set<Hash>();
  const receipts = new Map<string, Set<Hash>>([
    ["recorded", new Set()],
    ["released", new Set()],
  ]);
  const note = ({ event, versionId }: Seen): void => {
    if (versionId === undefined) return;
    if (event === "trained") trained.add(versionId);
    receipts.get(event)?.add(versionId);
  };
  const killAt = [
    "trained",
    "announced",
    "wanted",
    "recorded",
    "activated",
    "forgotten",
    "training",
    "fetched",
  ];
  for (let kill = 0; kill < kills; kill++) {
    const moment = killAt[Math.floor(random() * killAt.length)];
    let left = 1 + Math.floor(random() * 3);
    // An agent that waits for an event that never comes is killed after 30 further trainings.
    let patience = 30;
    const { child, ended } = start(home, settings, (seen) => {
      note(seen);
      if ((seen.event === moment && --left <= 0) || (seen.event === "trained" && --patience <= 0))
        setImmediate(() => {
          child.kill("SIGKILL");
        });
    });
    assert.equal(await ended, "SIGKILL", "the agent ended by itself");
  }

  // The last agent does not train; it reports everything that is left.
  await write(0);
  const released = receipts.get("released") as Set<Hash>;
  const noteReleased = async (): Promise<void> => {
    const listed = await server.handle.operations.models({ fleet: testFleet, device: "v1" });
    for (const { versionId, state } of listed)
      if (state === "released") note({ event: "released", versionId });
  };
  const isEverythingReleased = (): boolean => [...trained].every((version) => released.has(version));
  // Where all kills came early, nothing was trained, and a line may not run its first model yet.
  const isEachLineRunning = (): boolean => lines.every((line) => existsSync(join(home, "current", line)));
  // An agent that ends may just have saved the model of a training that was cut short before: the next reports it.
  do {
    await noteReleased();
    let wake = (): void => undefined;
    let gone = false;
    const { child, ended } = start(home, settings, (seen) => {
      note(seen);
      wake();
    });
    void ended.then(() => {
      gone = true;
      wake();
    });
    while (!isEverythingReleased() || !isEachLineRunning()) {
      assert.ok(!gone, "the agent ended by itself");
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    child.kill("SIGTERM");
    await ended;
    await noteReleased();
  } while (!isEverythingReleased());

  const known = await server.handle.operations.models({ fleet: testFleet, device: "v1" });
  // A kill can come between a save and its line in the log, once for each line of the agent.
  assert.ok(
    trained.size >= known.length - lines.length * (kills + 1),
    "the log tells which models were saved",
  );
  const ids = new Set(known.map(({ versionId }) => versionId));
  for (const version of trained) assert.ok(ids.has(version), `${version} was saved and is not at the server`);
  for (const version of receipts.get("recorded") ?? []) assert.ok(ids.has(version));
  for (const line of lines) {
    const sequences = known
      .filter(({ record }) => record.line === line)
      .map(({ record }) => record.sequence)
      .sort((a, b) => a - b);
    assert.deepEqual(
      sequences,
      sequences.map((_, at) => at + 1),
      `${line} counts without gaps or repetitions`,
    );
    const current = await readCurrent(home, line);
    for (const name of Object.keys(current.manifest.files)) await current.read(name);
  }
  for (const { versionId } of known)
    await server.handle.operations.verify({ fleet: testFleet, model: versionId });
  assert.ok(
    (await server.handle.operations.device({ fleet: testFleet, device: "v1" })).state === "enrolled",
    "the device was never taken for a clone",
  );
  console.log(`# ${trained.size} models reported, ${known.length} at the server, all recovered`);
});
