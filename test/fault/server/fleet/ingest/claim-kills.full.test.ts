/** A server that is killed at every step of a claim: the model is proved once, released, and recovered. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startAgent, type AgentHandle } from "../../../../../agent/main.js";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import { testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import {
  startServerProcess,
  type ServerProcess,
} from "../../../../../server/cli/simulation/server-process.js";

const fleet = "cars";
const isFull = process.env["STEMMA_TEST_FULL"] === "1";
/** The server is killed when it reports these. Only the first model's data are wanted: the others have the same. */
const moments: readonly ServerEvent["event"][] = ["wanted", "announced", "claimed", "claim-ended", "stored"];

describe("a claim whose server is killed", { skip: isFull ? false : "only with STEMMA_TEST_FULL=1" }, () => {
  let root: string;
  let server: ServerProcess;
  let agent: AgentHandle;
  const log = new WaitableLog();

  before(async () => {
    root = await mkdtemp(join(tmpdir(), "stemma-claim-kills-"));
    server = await startServerProcess(join(root, "server"), fleet);
    const { operations } = server;
    const cells = {
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { vehicle: 1 },
    };
    await operations.addDataset(cells);
    const parameters = { epochs: 1 };
    const base = { fleet, recipe: "battery-soh", data: "cells", name: "base", parameters };
    const { summary } = await operations.train(base);
    const enrolment = await operations.enroll({
      fleet,
      device: "van",
      lines: ["soh"],
      initial: { soh: "base" },
    });
    await writeFile(join(root, "enrolment.json"), JSON.stringify(enrolment));
    const line = {
      recipe: "battery-soh",
      parameters,
      dataset: { reader: "battery-simulated", parameters: { vehicle: 2 } },
      approach: "provenance",
      schedule: { everySeconds: null, afterSamples: null },
    };
    agent = await startAgent({
      home: join(root, "van"),
      enrolment: join(root, "enrolment.json"),
      config: { format: 1, lines: { soh: line } },
      profile: { ...testProfile() },
      log,
    });
    await log.until("activated", 1, { versionId: summary.versionId });
  });
  after(async () => {
    await agent.close();
    await server.kill("SIGTERM");
    await rm(root, { recursive: true, force: true });
  });

  for (const [index, moment] of moments.entries())
    it(`at "${moment}"`, async () => {
      const port = new URL(server.mqttUrl).port;
      const trained = log.next("trained", { line: "soh" });
      const reached = until(
        server,
        moment,
        trained.then(({ fields }) => String(fields["versionId"])),
      );
      await server.operations.trainOnDevice({ fleet, device: "van", line: "soh", parameters: {} });
      const versionId = await reached;
      await server.kill("SIGKILL");
      server = await startServerProcess(join(root, "server"), fleet, { options: ["--mqtt-port", port] });
      await log.until("released", 1, { versionId });
      const { claim, version, replayed } = await server.operations.model({ fleet, model: versionId });
      assert.deepEqual([claim?.isProved, replayed?.verdict, version], [true, "proved", index + 1]);
      await server.operations.verify({ fleet, model: versionId });
      const { facts } = await server.operations.journal({ fleet, limit: 1000 });
      assert.equal(
        facts.filter((fact) => fact.type === "proved" && fact["versionId"] === versionId).length,
        1,
      );
    });
});

/** Resolves with the version when the server reports this of it. */
async function until(
  { operations }: ServerProcess,
  moment: ServerEvent["event"],
  version: Promise<string>,
): Promise<string> {
  const stop = new AbortController();
  try {
    for await (const event of operations.events(stop.signal))
      if (event.event === moment && "versionId" in event && event.versionId === (await version))
        return await version;
  } finally {
    stop.abort();
  }
  throw new Error(`the server ended before "${moment}"`);
}
