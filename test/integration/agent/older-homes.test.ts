/**
 * Homes that agents wrote at earlier commits, opened by the agent of today: it goes on. Each is of a device that had
 * reported one model, lost its server, and trained another. `NAME.expected.json` is what that agent itself said of its
 * home. No test writes them again: they stand for what users have on disk. NAME is the time of the commit; what came
 * with each of them:
 *
 *     2026-11-21-1834   the first agent
 *     2026-11-22-1342   trainings that can begin again (`training` with its `job`), generations of an enrolment
 *     2026-11-22-1704   the server's history (`seen` with root, restores, server; `head` of a receipt), who asked
 *     2026-11-22        a checked session counter
 *     2026-11-23-0355   a checksum of the enrolment, `usesBytes` of a saved model
 *     2026-11-24        activations that were chosen
 *     2026-11-24-1913   signed releases: the versions of its own
 *     2026-11-24-2256   a certificate in place of the token
 *     2026-11-27        pipelines beside models
 *     2026-11-28-0129   the time that the device believes: what agents have written since, too
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";

const vectors = fileURLToPath(new URL("../../../../test/vectors/agent-homes/", import.meta.url));
const names = readdirSync(vectors).filter((name) => !name.includes("."));

interface Expected {
  readonly device: string;
  readonly line: string;
  readonly active: string;
  readonly samples: number;
  readonly heldOut: number;
  readonly versions: readonly { readonly versionId: string; readonly standing: string }[];
}

/** Soon after the homes were written: later their samples are too old to be kept. */
const clock = { ...nodeClock(), now: () => Date.parse("2026-11-29T12:00:00Z") };

/** An agent with the settings of its home, whose server is not there. */
const start = (home: string): Promise<AgentHandle> =>
  startAgent(
    { home, profile: { ...testProfile({}) }, log: new WaitableLog() },
    { clock, train: fakeTraining().train },
  );

async function stated(agent: AgentHandle): Promise<Expected> {
  const { device, lines } = await agent.status();
  const [{ line, active, samples, versions } = assert.fail("It has no line.")] = lines;
  return {
    device,
    line,
    active: active ?? "none",
    samples: samples?.samples ?? 0,
    heldOut: samples?.heldOut ?? 0,
    versions: versions.map(({ versionId, standing }) => ({ versionId, standing })),
  };
}

/** A copy of a home, which goes with the test. */
async function copyOf(name: string, context: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "stemma-older-"));
  context.after(() => rm(home, { recursive: true, force: true }));
  await cp(join(vectors, name), home, { recursive: true, verbatimSymlinks: true });
  return home;
}

test("there are homes", () => {
  assert.ok(names.length >= 10);
});

for (const name of names)
  test(`the home of ${name} says what it said then, and trains on`, async (context) => {
    const home = await copyOf(name, context);
    const expected = JSON.parse(await readFile(join(vectors, `${name}.expected.json`), "utf8")) as Expected;
    const agent = await start(home);
    try {
      assert.deepEqual(await stated(agent), expected);
      const { versionId } = await agent.train(expected.line);
      const { versions } = await stated(agent);
      assert.deepEqual(versions, [...expected.versions, { versionId, standing: "pending" }]);
    } finally {
      await agent.close();
    }
    const again = await start(home);
    try {
      // What waits to be reported waits still.
      const waiting = (await stated(again)).versions.filter(({ standing }) => standing === "pending");
      assert.equal(waiting.length, 2);
    } finally {
      await again.close();
    }
  });

/** The format of a home, and of the first segment of its outbox, as a later agent may write them. */
const laterFormats = {
  "home.json": {
    path: "home.json",
    change: (bytes: Buffer) => Buffer.from(bytes.toString().replace('"format":1', '"format":2')),
    refusal: { code: "HOME_FORMAT_UNKNOWN", message: /use the Stemma that wrote it/i },
  },
  outbox: {
    path: "outbox/journal/0000000000000000.log",
    change: (bytes: Buffer) => {
      bytes.writeUInt32LE(2, 8);
      bytes.writeUInt8(bytes.readUInt8(12) ^ 1, 12);
      return bytes;
    },
    refusal: { code: "JOURNAL_FORMAT_UNKNOWN", message: /use the Stemma that wrote it/i },
  },
};

for (const [what, { path, change, refusal }] of Object.entries(laterFormats))
  test(`a home whose ${what} has a later format is refused with what to do, and left as it is`, async (context) => {
    const home = await copyOf("2026-11-27", context);
    const file = join(home, path);
    const later = change(await readFile(file));
    await writeFile(file, later);
    await assert.rejects(start(home), refusal);
    assert.deepEqual(await readFile(file), later);
    // The agent that wrote it opens it again.
    await writeFile(file, await readFile(join(vectors, "2026-11-27", path)));
    await (await start(home)).close();
  });
