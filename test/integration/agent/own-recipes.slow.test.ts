/**
 * Recipes of the fleet's own on devices: the server brings them to the lines that name them, what they train is claimed
 * and proved, and a device runs, keeps and names no other.
 */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import type { Enrolment } from "../../../shared/trust/enrolment.js";
import { bundleId } from "../../../shared/train/own-recipes/bundle.js";
import { recipeWithOwnLoss } from "../../helpers/recipe-with-own-loss.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../helpers/test-server.js";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const second = recipeWithOwnLoss.replace("version: 1,", "version: 2,");
const other = recipeWithOwnLoss.replace("my-recipe", "other-recipe");
const device = { fleet, device: "van" };

describe("recipes of the fleet's own on a device", () => {
  let server: TestServer;
  let operations: ServerOperations;
  let home: string;
  let agent: AgentHandle;
  let enrolment: Enrolment;
  const released = new Set<string>();
  let onReleased = (): void => undefined;
  const listening = new AbortController();

  async function start(): Promise<WaitableLog> {
    const log = new WaitableLog();
    await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
    agent = await startAgent({
      home,
      config: {
        format: 1,
        // The tests are also run where there are no namespaces.
        recipes: { confinement: "interpreter" },
        lines: {
          soh: {
            recipe: "own:my-recipe",
            parameters: { epochs: 1 },
            dataset: { reader: "battery-simulated", parameters: { cycles: 100, cells: 1 } },
            approach: "provenance",
            schedule: { everySeconds: null, afterSamples: null },
          },
        },
      },
      profile: { ...testProfile() },
      log,
    });
    return log;
  }
  const approve = (text: string): ReturnType<ServerOperations["approveRecipe"]> =>
    operations.approveRecipe({ fleet, bundle: base64(text) });

  let log: WaitableLog;
  before(async () => {
    server = await startTestServer();
    await writeFile(join(server.home, "server.json"), '{"format":1,"recipes":{"confinement":"interpreter"}}');
    ({ operations } = server.handle);
    await operations.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { cycles: 100, cells: 1 },
    });
    await approve(recipeWithOwnLoss);
    await approve(other);
    const { summary: base } = await operations.train({
      fleet,
      recipe: "my-recipe",
      data: "cells",
      name: "base",
      parameters: { epochs: 1 },
    });
    await operations.revokeRecipe({ fleet, recipe: "my-recipe", because: "not yet" });
    void (async () => {
      for await (const event of operations.events(listening.signal))
        if (event.event === "released") {
          released.add(event.versionId);
          onReleased();
        }
    })();
    home = await mkdtemp(join(tmpdir(), "stemma-own-recipes-"));
    enrolment = await server.enroll("van", ["soh"], { soh: "base" });
    log = await start();
    await log.until("activated", 1, { versionId: base.versionId });
  });
  after(async () => {
    listening.abort();
    await server.remove();
    await agent.close();
    await rm(home, { recursive: true, force: true });
  });
  async function untilReleased(versionId: string): Promise<void> {
    while (!released.has(versionId))
      await new Promise<void>((resolve) => {
        onReleased = resolve;
      });
  }
  const ids = [recipeWithOwnLoss, second].map((text) => bundleId(Buffer.from(text)));
  const trainNow = (): ReturnType<ServerOperations["trainOnDevice"]> =>
    operations.trainOnDevice({ ...device, line: "soh", parameters: {} });
  const held = async (): Promise<unknown> => (await agent.status()).recipes?.recipes[0]?.recipe;

  it("do not train before one is approved, and are brought when it is, no others", async () => {
    await assert.rejects(agent.train("soh"), { code: "RECIPE_NOT_APPROVED" });
    const received = log.next("recipe-received", { recipe: ids[0] });
    await approve(recipeWithOwnLoss);
    await received;
    assert.equal(await held(), bundleId(Buffer.from(recipeWithOwnLoss)));
    const [mine, others] = ["my-recipe", "other-recipe"].map(
      async (name) => (await operations.recipes({ fleet })).find((one) => one.name === name)?.devices,
    );
    assert.deepEqual([await mine, await others], [1, 0]);
  });

  it("train a model that the server proves", async () => {
    const trained = log.next("trained", { line: "soh" });
    await trainNow();
    const versionId = String((await trained).fields["versionId"]);
    await untilReleased(versionId);
    const { claim, replayed, record } = await operations.model({ fleet, model: versionId });
    assert.equal(record.uses?.recipe, bundleId(Buffer.from(recipeWithOwnLoss)));
    assert.deepEqual([claim?.isProved, replayed?.verdict, replayed?.grade], [true, "proved", "bit-exact"]);
    await operations.verify({ fleet, model: versionId });
  });

  it("are replaced by what is approved later, also where the device was away meanwhile", async () => {
    await agent.close();
    await approve(second);
    log = await start();
    await log.until("recipe-received", 1, { recipe: ids[1] });
    assert.equal(await held(), bundleId(Buffer.from(second)));
    await agent.close();
    log = await start();
    assert.equal(await held(), bundleId(Buffer.from(second)), "it is kept");
  });

  it("are damaged on the disk: they are not run, and brought again", async () => {
    await agent.close();
    const file = join(home, "recipes", "my-recipe.json");
    const text = await readFile(file, "utf8");
    const { bundle } = JSON.parse(text) as { bundle: string };
    await writeFile(file, text.replace(bundle, base64(other)));
    log = await start();
    await log.until("recipe-damaged", 1, { recipe: "my-recipe" });
    await log.until("recipe-received", 1, { recipe: ids[1] });
    assert.equal(await held(), bundleId(Buffer.from(second)));
  });

  it("are taken back where their approval is revoked; what they trained is then wanted, not proved", async () => {
    const trained = await agent.train("soh");
    await untilReleased(trained.versionId);
    assert.equal((await operations.model({ fleet, model: trained.versionId })).claim?.isProved, true);
    await operations.revokeRecipe({ fleet, recipe: bundleId(Buffer.from(second)), because: "wrong" });
    // The first one is approved still, and is what the line gets.
    await log.until("recipe-received", 1, { recipe: ids[0] });
    assert.equal(await held(), bundleId(Buffer.from(recipeWithOwnLoss)));
    await operations.revokeRecipe({ fleet, recipe: "my-recipe", because: "wrong too" });
    await log.until("recipe-taken-back", 1, { recipe: "my-recipe" });
    assert.equal(await held(), null);
    await assert.rejects(agent.train("soh"), { code: "RECIPE_NOT_APPROVED" });
  });
});
