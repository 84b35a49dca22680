/**
 * Homes that agents wrote at earlier commits, opened by the agent of today: it goes on. Each is of a device that had
 * reported one model, lost its server, and trained another: those of 2026-11-22 and 2026-11-24 know no certificates,
 * that of 2026-11-27 has one and no learned time. `NAME.expected.json` is what that agent itself said of its home. No
 * test writes them again: they stand for what users have on disk.
 */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
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
const clock = { ...nodeClock(), now: () => Date.parse("2026-11-29T09:00:00Z") };

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

test("there are homes", () => {
  assert.ok(names.length >= 3);
});

for (const name of names)
  test(`the home of ${name} says what it said then, and trains on`, async (context) => {
    const home = await mkdtemp(join(tmpdir(), "stemma-older-"));
    context.after(() => rm(home, { recursive: true, force: true }));
    await cp(join(vectors, name), home, { recursive: true, verbatimSymlinks: true });
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
