/** Linear models, and the example application as a device's software that tries them on live inputs. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { callAgent } from "../../../../../agent/control/json-line-client.js";
import { safetensorsChunks } from "../../../../../shared/tensor/safetensors.js";
import { sourceOfTensor } from "../../../../../shared/tensor/tensor.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { testFleet as fleet } from "../../../../helpers/test-server.js";
import type { Device, Fleet } from "./rollout-fleet.js";

export const application = resolve("examples/live-trial.mjs");
export const truth = [1, -2, 3];

/** Imports a linear model whose first weight is off by so much. @returns its version id */
export async function importLinear({ operations }: Fleet, off: number): Promise<string> {
  const tensor = (shape: number[], values: number[]) =>
    sourceOfTensor({ dtype: "F32", shape, bytes: new Uint8Array(Float32Array.from(values).buffer) });
  const bytes = await collectBytes(
    safetensorsChunks([
      { name: "bias", source: tensor([1], [0]) },
      { name: "weight", source: tensor([1, 3], [truth[0]! + off, ...truth.slice(1)]) },
    ]),
  );
  const chunks = (async function* () {
    yield bytes;
  })();
  const { summary } = await operations.import({ byteLength: bytes.length, chunks }, { fleet, name: "lin" });
  return summary?.versionId ?? assert.fail("nothing was imported");
}

export type LiveInput = ({ readonly values: readonly number[] } | { readonly row: object }) & {
  readonly label: readonly number[];
};

export const inputs = (count: number): LiveInput[] =>
  Array.from({ length: count }, (_, i) => {
    const values = [Math.cos(i), Math.sin(i), (i % 5) / 5];
    return { values, label: [values.reduce((sum, value, at) => sum + value * truth[at]!, 0)] };
  });

/** The device's software on live inputs. Resolves when it has ended. */
export async function runSoftware({ home }: Device, given: number | readonly LiveInput[]): Promise<void> {
  const software = spawn(process.execPath, [application, home, line], { stdio: ["pipe", "ignore", "pipe"] });
  let errors = "";
  software.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  software.stdin.end(
    (typeof given === "number" ? inputs(given) : given).map((input) => `${JSON.stringify(input)}\n`).join(""),
  );
  const [status] = (await once(software, "close")) as [number | null];
  assert.equal(status, 0, errors);
}

export const ask = ({ agent }: Device, request: Record<string, unknown> & { readonly do: string }) =>
  callAgent(agent.sockets.samples, { line, ...request }) as Promise<Record<string, unknown>>;

export const live = { inputs: 60, minutes: 600, maxFailed: 0 };
export const rollout = (name: string, model: string, policy: object = {}) => ({
  fleet,
  name,
  model,
  line,
  select: "all",
  policy: { waves: ["rest"], live, ...policy },
  start: true,
});
export const installed = ({ home }: Device, versionId: string) =>
  existsSync(join(home, "versions", versionId));

/** The trial ends first. */
export async function untilRemoved(device: Device, versionId: string): Promise<void> {
  await pollUntil(`${versionId} is removed`, () => !installed(device, versionId));
}
