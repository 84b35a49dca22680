/** A device that learned a time of the future, from a server whose clock was ahead: how it connects again. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { invitedExchange } from "../../../agent/identity/exchanges.js";
import { startAgent } from "../../../agent/main.js";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { loadEnrolment, sealEnrolment } from "../../../shared/trust/enrolment.js";
import { keyOfSeed } from "../../../shared/trust/keys.js";
import { changeText } from "../../../shared/trust/releases/change-file.js";
import {
  ownerTimeFileText,
  signOwnerTime,
  unsignedOwnerTime,
} from "../../../shared/trust/releases/owner-time.js";
import { defaultValidDays, firstChange, signChange } from "../../../shared/trust/releases/release-change.js";
import type { Metadata } from "../../../shared/trust/releases/metadata.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { keysFor } from "../../helpers/release-owner.js";
import { startTestServer, testFleet, type TestServer } from "../../helpers/test-server.js";

const dayMs = 86_400_000;
const files = nodeFiles();
const random = nodeRandom();
const device = "strict";
const keys = keysFor({ root: ["a"], targets: ["a"], online: ["a"] });
const owner = keyOfSeed("a".repeat(64));
const validity = { nowMs: Date.now(), days: defaultValidDays };
const first = firstChange(testFleet, keys, validity);

class Fleet {
  private constructor(
    readonly t: TestContext,
    readonly server: TestServer,
    readonly home: string,
  ) {}

  static async start(t: TestContext): Promise<Fleet> {
    const server = await startTestServer({ tls: "own" });
    const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
    t.after(async () => {
      await server.remove();
      await rm(home, { recursive: true, force: true });
    });
    const fleet = new Fleet(t, server, home);
    const change = changeText(signChange(first, owner).change);
    await server.handle.operations.publishReleases({ fleet: testFleet, change });
    await fleet.enroll();
    return fleet;
  }

  get path(): string {
    return join(this.home, "enrolment.json");
  }

  async enroll(): Promise<void> {
    const { operations } = this.server.handle;
    const invitation = await operations.invite({ fleet: testFleet, device, lines: ["cam"] });
    const file = join(this.home, "invitation.json");
    await writeFile(file, JSON.stringify(invitation));
    const exchange = await invitedExchange({ files, random, path: this.path }, file);
    await exchange.take(await exchange.send(await exchange.request()));
  }

  /** Runs the agent until it logs this. */
  async runUntil(event: string): Promise<WaitableLog> {
    const log = new WaitableLog();
    const agent = await startAgent(
      { home: this.home, config: { format: 1 }, profile: { ...testProfile({}) }, log },
      { train: fakeTraining().train, checkRecipe: () => undefined, clock: nodeClock() },
    );
    await log.until(event);
    await agent.close();
    return log;
  }

  async stateTime(number: number, timeMs = Date.now()): Promise<void> {
    const root = first.root as Metadata<"root">;
    const statement = unsignedOwnerTime({ fleet: testFleet, number, timeMs });
    const file = ownerTimeFileText(signOwnerTime({ root, statement }, owner));
    await this.server.handle.operations.publishOwnerTime({ fleet: testFleet, file });
  }

  async learned(): Promise<{ timeMs: number; number: number }> {
    return JSON.parse(await readFile(join(this.home, "time.json"), "utf8")) as {
      timeMs: number;
      number: number;
    };
  }

  /** What an agent keeps that learned a time of the future for good, as those did that had no time.json. */
  async lockOut(): Promise<void> {
    await rm(join(this.home, "time.json"), { force: true });
    const { identity, ...rest } = await loadEnrolment(files, this.path);
    assert.ok(identity !== undefined);
    const ahead = { ...identity, issuedAtMs: Date.now() + 300 * dayMs };
    await writeFile(this.path, JSON.stringify(sealEnrolment({ ...rest, identity: ahead })));
  }
}

test("a device that refuses the server's certificate for its validity alone connects by the owner's statement", async (t) => {
  const fleet = await Fleet.start(t);
  await fleet.lockOut();
  const refused = await fleet.runUntil("disconnected");
  assert.equal(refused.count("welcomed"), 0);
  await fleet.stateTime(1);
  const log = await fleet.runUntil("welcomed");
  assert.equal(log.count("time-stated"), 1);
  const { timeMs, number } = await fleet.learned();
  assert.equal(number, 1);
  assert.ok(timeMs <= Date.now());
  // The same statement is sent in each session, and counts once.
  assert.equal((await fleet.runUntil("welcomed")).count("time-stated"), 0);
  await assert.rejects(fleet.stateTime(1, Date.now() + dayMs), { code: "RELEASE_ROLLED_BACK" });
});

test("enrolling again helps such a device, without a statement", async (t) => {
  const fleet = await Fleet.start(t);
  await fleet.lockOut();
  await fleet.runUntil("disconnected");
  await fleet.enroll();
  await fleet.runUntil("welcomed");
  assert.ok((await fleet.learned()).timeMs <= Date.now());
});
