/** Models that the engine cannot run, and the documented program that measures them, for tests of rollouts. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { codeBlocksOf, readPage } from "../../../../helpers/markdown.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import { startFleet, type Device, type Fleet } from "./rollout-fleet.js";

export const untrained = { recipe: undefined, parameters: {}, schedule: { rounds: 0 } };

async function weights(...values: readonly number[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(Float32Array.from(values).buffer);
  const source = sourceOfTensor({ dtype: "F32", shape: [values.length], bytes });
  return collectBytes(safetensorsChunks([{ name: "weight", source }]));
}

/** A fleet without devices, with the models `old`, `middle` and `good`, and the documented program and settings. */
export async function openProgramFleet(t: TestContext) {
  const vehicles = await startFleet(t, []);
  const folder = await mkdtemp(join(tmpdir(), "stemma-programs-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  for (const [name, model] of [
    ["old", await weights(0, 0)],
    ["middle", await weights(1, -0.5)],
    ["good", await weights(2, -1)],
  ] as const) {
    await writeFile(join(folder, `${name}.safetensors`), model);
    const chunks = async function* () {
      yield model;
    };
    await vehicles.operations.import({ byteLength: model.length, chunks: chunks() }, { fleet, name });
  }
  const blocks = codeBlocksOf(readPage("docs/own-models.md"));
  const program = join(folder, "measure.py");
  await writeFile(program, blocks.find(({ text }) => text.includes("measurement.json"))?.text ?? "");
  const settings = blocks.find(({ text }) => text.includes('"measure"'))?.text ?? "";
  const { lines } = JSON.parse(settings.replace("/opt/trainers/measure.py", program)) as {
    readonly lines: Readonly<Record<string, { readonly measure: object }>>;
  };
  const { measure } = lines["pack-soh"]!;
  return { vehicles, folder, measure };
}

/** Samples that the model `good` fits, or the other way round. */
export async function takeLinearSamples({ agent }: Device, sign = 1): Promise<void> {
  const samples = Array.from({ length: 200 }, (_, at) => {
    const values = [Math.sin(at), Math.cos(3 * at)] as const;
    return { values, shape: [2], label: sign * (2 * values[0] - values[1]) };
  });
  await agent.takeSamples(line, samples);
}

interface Planned {
  readonly name: string;
  readonly model: string;
  readonly select: string;
  readonly policy?: object;
}

/** Plans and starts a rollout; resolves when it has ended or is paused. */
export async function rollOut(vehicles: Fleet, { name, policy = {}, ...planned }: Planned) {
  const body = { fleet, name, ...planned, line, policy: { waves: ["rest"], ...policy }, force: true };
  const plan = await vehicles.operations.planRollout(body);
  await vehicles.operations.createRollout({ ...body, start: true });
  const state = await vehicles.until(
    name,
    ({ phase, devices: { passed, switched } }) =>
      (phase === "done" || phase === "paused") && passed === switched,
  );
  return { plan, state };
}
