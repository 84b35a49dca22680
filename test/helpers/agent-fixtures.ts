/**
 * Fixtures for tests of the agent: a model of a few hundred bytes with an architecture, a fake training that
 * takes no time, a log that a test can wait on, and a profile with overrides.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { decodeArchitecture, encodeArchitecture, weightSlots } from "../../shared/model/architecture.js";
import { inheritedLayout } from "../../shared/layouts/base-layout.js";
import { encodeLayout, layoutName } from "../../shared/layouts/layout.js";
import { defaultNames, writeModelJson } from "../../shared/model/model-json-export.js";
import type { Architecture, ModelSource } from "../../shared/model/model.js";
import type { Log, LogFields } from "../../shared/ports.js";
import { modelSourceOfTensors } from "../../shared/save/model-source.js";
import type { SaveModelOptions } from "../../shared/save/save-model.js";
import { zeroHash } from "../../shared/tensor/hash.js";
import { fileOfBytes, readSafetensors, safetensorsChunks } from "../../shared/tensor/safetensors.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../shared/tensor/tensor.js";
import { GraphBuilder } from "../../shared/train/builders/graph-builder.js";
import type { TrainingOutcome } from "../../shared/train/train-in-child.js";
import { Streams } from "../../shared/random/streams.js";
import type { TrainingJob } from "../../shared/train/training.js";
import type { Outbox } from "../../agent/outbox/outbox.js";
import { parseProfile, type Profile } from "../../agent/settings/profile.js";
import type { AgentPorts } from "../../agent/main.js";
import { awaiting } from "./awaiting.js";

/** A model of two dense layers; `units` is the width of the first. */
export function tinyModel(
  seed = "1",
  units = 3,
): { readonly architecture: Architecture; readonly tensors: readonly Tensor[] } {
  const graph = new GraphBuilder();
  return graph.build(
    graph.dense(graph.dense(graph.input([4]), 4, units, "relu"), units, 2),
    new Streams(seed, 0),
  );
}

export function tinySource(seed = "1", units = 3): ModelSource {
  const { architecture, tensors } = tinyModel(seed, units);
  return modelSourceOfTensors(architecture, tensors);
}

/** The layout of a model whose tensors are in its file as they are, under the names own.0, own.1, … */
export async function layoutOfOwnNames(
  model: ModelSource,
): Promise<{ readonly name: string; readonly bytes: Uint8Array }> {
  const tensors = model.leaves.map(({ dtype, shape }, leaf) => ({ name: `own.${leaf}`, dtype, shape, leaf }));
  return { name: layoutName, bytes: await inheritedLayout(model, encodeLayout({ tensors, root: zeroHash })) };
}

/** Saves a model into an outbox that no training made: what a line starts from. */
export async function saveBase(
  outbox: Outbox,
  model: ModelSource,
  line: string,
  attachments?: SaveModelOptions["attachments"],
): Promise<Hash> {
  const { versionId } = await outbox.saveTrained(model, {
    name: "m",
    fleet: "f",
    device: "d",
    line,
    base: undefined,
    metric: null,
    samples: null,
    environment: { backend: "none" },
    ...(attachments === undefined ? {} : { attachments }),
  });
  return versionId;
}

/** The tiny model as the input of an import: a safetensors file and its model.json. */
export async function tinyImport(
  seed = "1",
  units = 3,
): Promise<{ readonly bytes: Uint8Array; readonly architecture: string }> {
  const { architecture, tensors } = tinyModel(seed, units);
  const names = defaultNames(architecture);
  const bytes = await collectBytes(
    safetensorsChunks(
      tensors.map((tensor, at) => ({ name: names.leaves[at] as string, source: sourceOfTensor(tensor) })),
    ),
  );
  return { bytes, architecture: JSON.stringify(writeModelJson(architecture, names)) };
}

export async function collectBytes(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return new Uint8Array(Buffer.concat(parts));
}

export interface FakeTraining {
  readonly train: AgentPorts["train"];
  readonly jobs: TrainingJob[];
}

/**
 * Changes the last tensor by amounts computed from the job's seed and invocation, so that equal jobs give equal
 * bytes; `full` changes all tensors. Reads its base from the folder that the job names, as the engine does.
 */
export function fakeTraining({
  full = false,
  fail = false,
}: { readonly full?: boolean; readonly fail?: boolean } = {}): FakeTraining {
  const jobs: TrainingJob[] = [];
  const train: AgentPorts["train"] = async (job, { workFolder, signal }) => {
    jobs.push(job);
    if (fail || signal?.aborted === true)
      throw new Error("the fake training fails as the test demands, or was aborted");
    const folder = join(workFolder, "result");
    await mkdir(folder, { recursive: true });
    const base = job.base?.folder ?? "";
    const architecture = decodeArchitecture(await readFile(join(base, "architecture.json")));
    const file = await readSafetensors(fileOfBytes(await readFile(join(base, "model.safetensors"))), base);
    const slots = weightSlots(architecture);
    const tensors = await Promise.all(
      slots.map(({ path }) =>
        tensorOfSource(
          file.source(file.tensors.find(({ name }) => name === path) as (typeof file.tensors)[number]),
        ),
      ),
    );
    const changed = tensors.map((tensor, at) =>
      full || at === tensors.length - 1
        ? changedTensor(tensor, Number(BigInt(job.seed) % 251n) + job.invocation)
        : tensor,
    );
    await writeFile(
      join(folder, "model.safetensors"),
      await collectBytes(
        safetensorsChunks(
          changed.map((tensor, at) => ({
            name: (slots[at] as { path: string }).path,
            source: sourceOfTensor(tensor),
          })),
        ),
      ),
    );
    await writeFile(join(folder, "architecture.json"), encodeArchitecture(architecture));
    return outcomeOf(folder, architecture);
  };
  return { train, jobs };
}

function changedTensor(tensor: Tensor, amount: number): Tensor {
  const bytes = tensor.bytes.slice();
  for (let at = 0; at < bytes.length; at += 4) bytes[at] = ((bytes[at] ?? 0) + amount + at) & 0xff;
  return { ...tensor, bytes };
}

function outcomeOf(folder: string, architecture: Architecture): TrainingOutcome {
  return {
    folder,
    architecture,
    modelFile: join(folder, "model.safetensors"),
    architectureFile: join(folder, "architecture.json"),
    checkpoints: [],
    result: {
      format: 1,
      engine: "e".repeat(64) as Hash,
      backend: { backend: "wasm", reason: "test" },
      metric: { name: "accuracy", unit: "%", lowerIsBetter: false, before: 50, after: 75 },
      measurements: [{ iteration: 1, epoch: 1, loss: 0.5, learningRate: 0.1 }],
      epochs: 1,
      stoppedEarly: false,
      samples: { train: 4, validation: 1, heldOut: 1 },
      datasetHash: "d".repeat(64) as Hash,
      provenance: { recipe: { name: "fake", version: 1 } },
      durationMs: 1,
      files: { model: "model.safetensors", architecture: "architecture.json" },
    },
  };
}

export interface LoggedEvent {
  readonly event: string;
  readonly fields: LogFields;
}

/** Which event is meant: the fields that it has, each with its value, or what decides. */
type EventMatch = LogFields | ((fields: LogFields) => boolean);

/** Events that come once for each version, line, recipe or program: a wait has to state which one it means. */
type EventOfMany =
  | "activated"
  | "announced"
  | "coded"
  | "coding-decided"
  | "downloaded"
  | "fetched"
  | "forgotten"
  | "hook-output"
  | "model-lost"
  | "offer-failed"
  | "offered"
  | "recipe-damaged"
  | "recipe-received"
  | "recipe-taken-back"
  | "recorded"
  | "released"
  | "samples-skipped"
  | "stored"
  | "trained"
  | "trainer-output"
  | "training"
  | "training-failed"
  | "training-stopped"
  | "trial-began"
  | "trial-ended"
  | "upload-ended"
  | "wanted";
type CountAndMatch<Name> = Name extends EventOfMany
  ? [count: number, match: EventMatch]
  : [count?: number, match?: EventMatch];
type Match<Name> = Name extends EventOfMany ? [match: EventMatch] : [match?: EventMatch];

/** Keeps every logged event; a test can wait for one without sleeping. */
export class WaitableLog implements Log {
  readonly events: LoggedEvent[] = [];
  readonly #waiters = new Set<() => void>();
  readonly debug = (event: string, fields: LogFields = {}): void => {
    this.#note(event, fields);
  };
  readonly info = this.debug;
  readonly warn = this.debug;
  readonly error = this.debug;
  child(): Log {
    return this;
  }

  count(event: string, match: EventMatch = {}): number {
    return this.#matching(event, match).length;
  }

  /**
   * Resolves when `count` matching events have been logged, including those before the call. Has no timeout of
   * its own: the test runner's ends a wait that is never satisfied.
   */
  until<Name extends string>(
    event: Name,
    ...[count = 1, match = {}]: CountAndMatch<Name>
  ): Promise<LoggedEvent> {
    return this.#wait(event, count, match);
  }

  /** Resolves with the next matching event; those logged before the call do not count. */
  next<Name extends string>(event: Name, ...[match = {}]: Match<Name>): Promise<LoggedEvent> {
    return this.#wait(event, this.count(event, match) + 1, match);
  }

  #wait(event: string, count: number, match: EventMatch): Promise<LoggedEvent> {
    const meant = typeof match === "function" ? String(match) : JSON.stringify(match);
    const describe = (): string =>
      `${count} × ${event} ${meant} in the log of an agent, which has ${this.events.map((one) => one.event).join(", ")}`;
    return awaiting(describe, this.#reached(event, count, match));
  }

  async #reached(event: string, count: number, match: EventMatch): Promise<LoggedEvent> {
    for (;;) {
      const found = this.#matching(event, match);
      if (found.length >= count) return found[count - 1] as LoggedEvent;
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiters.delete(wake);
          resolve();
        };
        this.#waiters.add(wake);
      });
    }
  }

  #matching(event: string, match: EventMatch): readonly LoggedEvent[] {
    return this.events.filter((one) => one.event === event && matches(one.fields, match));
  }

  #note(event: string, fields: LogFields): void {
    this.events.push({ event, fields });
    if (process.env["STEMMA_TEST_LOG"] === "1") console.error(event, JSON.stringify(fields));
    for (const wake of [...this.#waiters]) wake();
  }
}

function matches(fields: LogFields, match: EventMatch): boolean {
  if (typeof match === "function") return match(fields);
  return Object.entries(match).every(([name, value]) => fields[name] === value);
}

const MiB = 2 ** 20;

/** A small profile; `changes` override values by path, such as {"disk.keepLast": 1}. */
export function testProfile(changes: Readonly<Record<string, unknown>> = {}): Profile {
  const value: Record<string, unknown> = {
    format: 1,
    name: "test",
    description: "for tests",
    training: {
      backends: ["wasm"],
      threads: 1,
      memoryLimitMb: 256,
      dutyHours: null,
      everyHours: null,
      afterSamples: null,
    },
    link: { blockBytes: 16384, window: 4, bytesPerSecond: null, keepaliveSeconds: 60 },
    save: { approach: "update", releasedWhen: "stored" },
    activation: "after-receipt",
    disk: { budgetBytes: 256 * MiB, reserveBytes: { slots: MiB, outbox: MiB, head: MiB }, keepLast: 3 },
    samples: { maxBytes: 8 * MiB, maxAgeHours: null, heldOutPercent: 20, validationPercent: 10 },
  };
  for (const [path, change] of Object.entries(changes)) {
    const names = path.split(".");
    const last = names.pop() as string;
    let parent = value;
    for (const name of names) parent = parent[name] as Record<string, unknown>;
    parent[last] = change;
  }
  return parseProfile(value, "test");
}
