/** A model's input pipeline (ME8), from its training to an application on a device. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { readCurrent } from "../../../agent/current/read-current.js";
import { publishedOf } from "../../../server/cli/release-choices.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { encodePipeline, inputPipelineOf } from "../../../shared/train/datasets/input-pipeline.js";
import { loadDataset } from "../../../shared/train/datasets/registry.js";
import { keyOfSeed } from "../../../shared/trust/keys.js";
import { changeText, describeChange } from "../../../shared/trust/releases/change-file.js";
import { unsignedManifest, type ReleaseManifest } from "../../../shared/trust/releases/manifest.js";
import {
  addRelease,
  defaultValidDays,
  firstChange,
  signChange,
  type ReleaseChange,
} from "../../../shared/trust/releases/release-change.js";
import {
  isOfVersion,
  startAgentTestEnvironment,
  type AgentTestEnvironment,
} from "../../helpers/agent-test-environment.js";
import { keysFor } from "../../helpers/release-owner.js";
import { testFleet as fleet } from "../../helpers/test-server.js";

const seed = "a";
const keys = keysFor({ root: [seed], targets: [seed], online: [seed] });
const validity = { nowMs: Date.now(), days: defaultValidDays };
const line = "flowers";
const program = resolve("examples/table-model.mjs");

/** Two classes that one number tells apart; its scale is far from 1, so that a model needs it. */
const rows = Array.from({ length: 60 }, (_, row) => ({
  length: row % 2 === 0 ? 1000 + row : 3000 + row,
  colour: ["red", "blue"][row % 3 === 0 ? 0 : 1],
  kind: row % 2 === 0 ? "small" : "large",
}));

class Scene {
  private constructor(
    readonly environment: AgentTestEnvironment,
    readonly folder: string,
  ) {}

  static async open(t: TestContext): Promise<Scene> {
    const environment = await startAgentTestEnvironment(t);
    const folder = await mkdtemp(join(tmpdir(), "stemma-inputs-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    return new Scene(environment, folder);
  }

  get operations() {
    return this.environment.server.handle.operations;
  }

  async train(
    name: string,
    lines: readonly string[],
    more: Readonly<Record<string, readonly string[]>> = {},
  ): Promise<Hash> {
    const location = join(this.folder, `${name}.csv`);
    await writeFile(location, `${lines.join("\n")}\n`);
    const parameters = {
      task: "classification",
      targets: ["kind"],
      scaling: "standard",
      splitSeed: 1,
      ...more,
    };
    await this.operations.addDataset({ fleet, name, kind: "csv", location, parameters });
    const request = { fleet, name, data: name, recipe: "logistic-regression", seed: "1" };
    const { summary } = await this.operations.train({ ...request, parameters: { epochs: 3, batchSize: 8 } });
    return summary.versionId;
  }

  async publish(change: ReleaseChange): Promise<void> {
    const signed = signChange(change, keyOfSeed(seed.repeat(64))).change;
    await this.operations.publishReleases({ fleet, change: changeText(signed) });
  }

  async release(
    model: string,
    change = (manifest: ReleaseManifest): ReleaseManifest => manifest,
    name = model,
  ): Promise<readonly string[]> {
    const now = await publishedOf(this.operations, fleet);
    const added = addRelease(now, name, change(await this.manifest(model)), validity);
    await this.publish(added);
    return describeChange(added);
  }

  async manifest(model: string): Promise<ReleaseManifest> {
    const made = await this.operations.releaseManifest({ fleet, model });
    return unsignedManifest(made.manifest) as ReleaseManifest;
  }

  /** The home of a new device that runs the version. */
  async install(device: string, model: string, versionId: Hash): Promise<string> {
    const home = await mkdtemp(join(this.folder, "agent-"));
    const enrolment = await this.environment.server.enroll(device, [line], { [line]: model });
    const lines = { [line]: { recipe: "fake", dataset: { reader: "images-generated" } } };
    const agent = await this.environment.startAgent({ enrolment, home, lines });
    await agent.log.until("activated", 1, isOfVersion(versionId));
    return home;
  }

  /** As `stemma model pipeline --file` writes it. */
  async pipelineOf(model: string): Promise<Buffer> {
    const { provenance } = await this.operations.model({ fleet, model });
    const { data } = provenance as { readonly data: readonly unknown[] };
    return Buffer.from(encodePipeline(inputPipelineOf(data[0])));
  }
}

const table = [
  "length,colour,kind",
  ...rows.map(({ length, colour, kind }) => `${length},${colour},${kind}`),
];

describe("the input pipeline of a released model", () => {
  it("is installed beside it, and an application makes the inputs of the training from it", async (t) => {
    const scene = await Scene.open(t);
    await scene.publish(firstChange(fleet, keys, validity));
    const versionId = await scene.train(line, table, { categories: ["colour=red|blue"] });
    assert.match((await scene.release(line)).join(), /with its input pipeline/);
    const home = await scene.install("car-1", line, versionId);
    const current = await readCurrent(home, line);
    const expected = await scene.pipelineOf(line);
    assert.deepEqual(Buffer.from(await current.read("pipeline.json")), expected);
    assert.ok(current.manifest.files["pipeline.json"] !== undefined);

    const input = rows.map((row) => JSON.stringify({ length: row.length, colour: row.colour })).join("\n");
    const { stdout, stderr } = spawnSync(process.execPath, [program, home, line], {
      input,
      encoding: "utf8",
    });
    assert.equal(stderr, "");
    const answers = stdout
      .trim()
      .split("\n")
      .map((one) => JSON.parse(one) as { inputs: number[]; answer: string });
    assert.deepEqual(
      answers.map(({ answer }) => answer),
      rows.map(({ kind }) => kind),
    );
    const [summary] = await scene.operations.datasets({ fleet });
    const { set } = await loadDataset(
      { reader: "csv", location: summary!.location, parameters: { ...summary!.parameters, split: "order" } },
      nodeFiles(),
    );
    assert.equal(answers[0]?.inputs.length, set.inputShape[0]);

    // Released without it, and nothing tells a device how inputs are made.
    const bareId = await scene.train("bare", table, { categories: ["colour=red|blue"] });
    const told = await scene.release("bare", ({ pipeline: _, ...stripped }) => stripped);
    assert.doesNotMatch(told.join(), /pipeline/);
    const bare = await readCurrent(await scene.install("car-2", "bare", bareId), line);
    assert.equal(bare.manifest.files["pipeline.json"], undefined);
    // Of two releases of a version devices take what either has.
    await scene.release("bare", undefined, "a-bare-one-with-inputs");
    const both = await readCurrent(await scene.install("car-3", "bare", bareId), line);
    assert.deepEqual(Buffer.from(await both.read("pipeline.json")), await scene.pipelineOf("bare"));

    await scene.operations.reduce({ fleet, model: "bare", scheme: "float16", name: "small" });
    const [small, exact] = [await scene.manifest("small"), await scene.manifest("bare")];
    assert.ok(small.versionId !== exact.versionId && small.pipeline !== undefined);
    assert.equal(small.pipeline, exact.pipeline);
  });

  it("travels in blocks where it is long, also of a version that nobody released", async (t) => {
    const scene = await Scene.open(t);
    const columns = Array.from({ length: 250 }, (_, column) => `a rather long name of column ${column}`);
    const lines = rows.map(({ length, kind }, row) => [...columns.map((_, at) => length + row * at), kind]);
    const versionId = await scene.train(
      "wide",
      [[...columns, "kind"], ...lines].map((one) => one.join()),
    );
    const expected = await scene.pipelineOf("wide");
    assert.ok(expected.length > 16 * 1024, String(expected.length));
    const home = await scene.install("car-1", "wide", versionId);
    assert.deepEqual(Buffer.from(await (await readCurrent(home, line)).read("pipeline.json")), expected);
  });
});
