/** Devices that report how they made a model: the server makes it again, or asks for its parameters. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import type { ServerEvent } from "../../../server/interface/api/event-schemas.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import { trainInChild } from "../../../shared/train/train-in-child.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../helpers/test-server.js";

describe("a device that reports provenance", () => {
  let server: TestServer;
  let operations: ServerOperations;
  let home: string;
  let agent: AgentHandle;
  const log = new WaitableLog();
  const events: ServerEvent[] = [];
  let onEvent = (): void => undefined;
  const listening = new AbortController();
  /** Whether the next training of the device gives other bytes than it states. */
  let isLying = false;

  before(async () => {
    server = await startTestServer();
    ({ operations } = server.handle);
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 1 },
    });
    const { summary: base } = await operations.train({
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "base",
      parameters: { epochs: 1 },
    });
    void (async () => {
      for await (const event of operations.events(listening.signal)) {
        events.push(event);
        onEvent();
      }
    })();
    home = await mkdtemp(join(tmpdir(), "stemma-claims-"));
    const enrolment = await server.enroll("van", ["soh"], { soh: "base" });
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    agent = await startAgent(
      {
        home,
        config: {
          format: 1,
          lines: {
            soh: {
              recipe: "battery-soh",
              parameters: { epochs: 1 },
              dataset: { reader: "battery-simulated", parameters: { vehicle: 2 } },
              approach: "provenance",
              schedule: { everySeconds: null, afterSamples: null },
            },
          },
        },
        profile: { ...testProfile() },
        log,
      },
      {
        train: async (job, options) => {
          const outcome = await trainInChild(job, options);
          if (isLying) await flipLastBit(outcome.modelFile);
          return outcome;
        },
      },
    );
    await log.until("activated", 1, { versionId: base.versionId });
  });
  after(async () => {
    listening.abort();
    await agent.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });

  async function until(name: ServerEvent["event"], versionId: string): Promise<void> {
    const isMeant = (each: ServerEvent): boolean =>
      each.event === name && "versionId" in each && each.versionId === versionId;
    while (!events.some(isMeant))
      await new Promise<void>((resolve) => {
        onEvent = resolve;
      });
  }

  /** Trains on the device; resolves when the server lets it forget the model. */
  async function trainAndRelease(): Promise<string> {
    events.length = 0;
    const trained = log.next("trained", { line: "soh" });
    await operations.trainOnDevice({ fleet, device: "van", line: "soh", parameters: {} });
    const versionId = String((await trained).fields["versionId"]);
    await until("activated", versionId);
    await until("released", versionId);
    return versionId;
  }

  it("sends no parameters where the server proves the model", async () => {
    const versionId = await trainAndRelease();
    const names = events
      .filter((each) => "versionId" in each && each.versionId === versionId)
      .map(({ event }) => event);
    assert.deepEqual(
      names.filter((name) => ["announced", "claimed", "claim-ended", "recorded", "released"].includes(name)),
      ["announced", "claimed", "claim-ended", "released"],
    );
    const [wanted, ...others] = events.filter((each) => each.event === "wanted");
    assert.deepEqual([wanted?.objects, wanted?.bytes, others], [1, 57, []], "only where the data are");
    const { claim, replayed, tensorBytes } = await operations.model({ fleet, model: versionId });
    assert.deepEqual([claim?.isProved, replayed?.verdict, replayed?.grade], [true, "proved", "bit-exact"]);
    assert.ok(tensorBytes > 0);
    await operations.verify({ fleet, model: versionId });
  });

  it("is asked for the parameters where they are not what it states", async () => {
    isLying = true;
    const versionId = await trainAndRelease();
    const { claim } = await operations.model({ fleet, model: versionId });
    assert.deepEqual([claim?.isProved, claim?.ended?.verdict], [false, "refuted"]);
    await operations.verify({ fleet, model: versionId });
  });
});

async function flipLastBit(path: string): Promise<void> {
  const bytes = await readFile(path);
  bytes[bytes.length - 4]! ^= 1;
  await writeFile(path, bytes);
}
