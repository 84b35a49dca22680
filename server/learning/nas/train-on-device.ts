/**
 * Trains candidates on a device of the fleet. The start of a candidate, with what it inherits, is given to a line of
 * the device; the device trains it on its own data as it trains every model of this line, and reports the model with
 * its provenance. The server measures the quality on data of its own: the word of a device is not taken for it, nor
 * that it left the inherited layers alone.
 */
import * as z from "zod";
import { isStemmaError } from "../../../shared/errors.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { inheritableKey } from "../../../shared/model/metadata.js";
import type { Hash, Tensor } from "../../../shared/tensor/tensor.js";
import { metricValue } from "../../../shared/train/evaluation.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import {
  candidateStart,
  fileOf,
  recipeParameters,
  type CandidateJob,
  type CandidateStart,
  type CandidateTrainer,
  type MadeCandidate,
} from "./candidate.js";
import {
  DeviceWork,
  type DeviceWorkOperations,
  type DeviceWorkOptions,
  type Version,
} from "./device-work.js";
import { notOneClassEach } from "./search-errors.js";
import { inChunks, readRecovered, type Inherited } from "./search-store.js";

/** The operations of a server that a search uses to train on its devices. */
export type DeviceOperations = DeviceWorkOperations &
  Pick<ServerOperations, "import" | "model" | "recover" | "descendants" | "trainOnDevice">;

export interface DeviceTrainerOptions extends Omit<DeviceWorkOptions, "request"> {
  readonly operations: DeviceOperations;
  /** The name of the candidates' models; what they start from is named after it. */
  readonly name: string;
}

/** The parameters of its training that a device tells; absent: they are kept secret. */
const toldParameters = z.object({ parameters: z.record(z.string(), z.object({ value: z.unknown() })) });

export const startNameOf = (name: string): string => `${name}-start`;

export class DeviceTrainer implements CandidateTrainer {
  readonly #options: DeviceTrainerOptions;
  readonly #work: DeviceWork;
  /** Versions that nothing needs once the device runs another one. */
  #uselessVersions: Hash[] = [];

  constructor(options: DeviceTrainerOptions) {
    this.#options = options;
    const { operations, fleet, device, line, held } = options;
    this.#work = new DeviceWork({
      ...options,
      request: ({ parameters }) =>
        operations.trainOnDevice({ fleet, device, line, parameters, leaseKey: held.key }),
    });
  }

  get device(): string {
    return this.#options.device;
  }

  async train(
    job: CandidateJob,
    inherited: Inherited | undefined,
    { signal }: { readonly signal?: AbortSignal | undefined },
  ): Promise<MadeCandidate> {
    const { clock } = this.#options;
    const { frozenLayers, ...start } = candidateStart(job, inherited);
    const given = await this.#import(job, start);
    this.#uselessVersions.push(given.versionId);
    await this.#work.give(given.versionId, signal);
    await this.#retireLeft(given.versionId);
    const startedMs = clock.monotonic();
    const parameters = recipeParameters(job, frozenLayers);
    const trained = await this.#work.train({ start: given.versionId, parameters }, signal);
    this.#uselessVersions.push(trained.versionId);
    const trainMs = clock.monotonic() - startedMs;
    await this.#requireAsked(trained.versionId, parameters);
    if (trained.record.objects.architecture !== given.record.objects.architecture)
      throw this.#work.lost("it reported a model of another architecture than the one it was given");
    const accuracy = await this.#measure(trained.versionId, signal);
    const tensors = this.#tensorsOf(await this.#recovered(trained.versionId), start, frozenLayers);
    return { ...start, tensors, accuracy, frozen: frozenLayers.length, trainMs };
  }

  async close(): Promise<void> {
    await this.#retireLeft();
  }

  async #import(job: CandidateJob, start: Omit<CandidateStart, "frozenLayers">): Promise<Version> {
    const { operations, fleet, name } = this.#options;
    const file = await fileOf(start);
    const { summary } = await operations.import(
      { byteLength: file.length, chunks: inChunks(file) },
      {
        fleet,
        name: startNameOf(name),
        architecture: JSON.stringify(start.modelJson),
        // The weights are random ones where they are not inherited: no other candidate may take them over.
        metadata: { "search.candidate": job.candidate, [inheritableKey]: false },
      },
    );
    return summary!;
  }

  /**
   * The device may have been asked by somebody else, before the search had its line or on the device itself.
   * @throws SEARCH_WORKER_LOST where it tells of other parameters
   */
  async #requireAsked(versionId: Hash, asked: Readonly<Record<string, string | number>>): Promise<void> {
    const { operations, fleet } = this.#options;
    const { provenance } = await operations.model({ fleet, model: versionId });
    const { parameters = {} } = toldParameters.safeParse(provenance).data ?? {};
    for (const [name, value] of Object.entries(asked))
      if (parameters[name] !== undefined && parameters[name].value !== value)
        throw this.#work.lost(
          `it trained with ${name} ${String(parameters[name].value)}, and ${value} was asked for`,
        );
  }

  async #measure(versionId: Hash, signal: AbortSignal | undefined): Promise<number> {
    const { evaluation } = await this.#work.measure(versionId, signal);
    if (evaluation.task === "classification") return metricValue(evaluation, "%");
    throw notOneClassEach(this.#options.data);
  }

  async #recovered(versionId: Hash): Promise<ReadonlyMap<string, Tensor>> {
    const { operations, fleet } = this.#options;
    return readRecovered(operations, { fleet, model: versionId });
  }

  /**
   * Returns the tensors in canonical order. @throws SEARCH_WORKER_LOST where the device changed what it was
   * not to train
   */
  #tensorsOf(
    trained: ReadonlyMap<string, Tensor>,
    { architecture, names, tensors }: Pick<CandidateStart, "architecture" | "names" | "tensors">,
    frozenLayers: readonly number[],
  ): readonly Tensor[] {
    const frozen = new Set(frozenLayers);
    const slots = weightSlots(architecture);
    return tensors.map((before, leaf) => {
      const after = trained.get(names.leaves[leaf] as string);
      if (after === undefined || after.dtype !== before.dtype || after.shape.join() !== before.shape.join())
        throw this.#work.lost(`its model has no tensor ${names.leaves[leaf]} of the form that it was given`);
      if (frozen.has(slots[leaf]?.layer ?? -1) && Buffer.compare(before.bytes, after.bytes) !== 0)
        throw this.#work.lost(
          `it changed the tensor ${names.leaves[leaf]}, whose layer was not to be trained`,
        );
      return after;
    });
  }

  /** Retires what earlier candidates left on the server, except what the device still runs. */
  async #retireLeft(except?: Hash): Promise<void> {
    const { operations, fleet, device } = this.#options;
    const kept: Hash[] = [];
    for (const versionId of this.#uselessVersions) {
      const isRetired =
        versionId !== except &&
        (await retireUnlessUsed(operations, { fleet, model: versionId, because: startBecause(device) }));
      if (!isRetired) kept.push(versionId);
    }
    this.#uselessVersions = kept;
  }
}

/**
 * Retires what an earlier call of this search left: starts, and what devices trained of them. Of searches with one
 * name, only one may run in a fleet at a time.
 */
export async function retireStarts(
  operations: Pick<DeviceOperations, "listModels" | "descendants" | "retire">,
  { fleet, name, line }: { readonly fleet: string; readonly name: string; readonly line: string },
): Promise<void> {
  const because = startBecause("devices");
  for (const { versionId: start } of await startsOf(operations, { fleet, name }))
    await retireStart(operations, { fleet, start, line, because });
}

/**
 * Retires a start, and what devices trained of it, unless they run it.
 * @param kept what something that stays comes from; the start stays with what was trained of it
 */
export async function retireStart(
  operations: Pick<DeviceOperations, "descendants" | "retire">,
  {
    fleet,
    start,
    line,
    because,
    kept,
  }: {
    readonly fleet: string;
    readonly start: Hash;
    readonly line: string;
    readonly because: string;
    readonly kept?: ReadonlySet<Hash>;
  },
): Promise<void> {
  const { descendants } = await operations.descendants({ fleet, model: start, limit: 10_000 });
  const trained = descendants.filter(
    ({ version: { record } }) => record.bases.includes(start) && record.line === line,
  );
  for (const { version } of trained)
    if (version.state !== "retired" && kept?.has(version.versionId) !== true)
      await retireUnlessUsed(operations, { fleet, model: version.versionId, because });
  if (!trained.some(({ version }) => kept?.has(version.versionId)))
    await retireUnlessUsed(operations, { fleet, model: start, because });
}

async function startsOf(
  operations: Pick<DeviceOperations, "listModels">,
  { fleet, name }: { readonly fleet: string; readonly name: string },
): Promise<readonly Version[]> {
  const found: Version[] = [];
  for (;;) {
    const page = await operations.listModels({
      fleet,
      name: startNameOf(name),
      order: "oldest",
      offset: found.length,
      limit: 10_000,
    });
    found.push(...page.versions);
    if (page.versions.length === 0 || found.length >= page.total) return found;
  }
}

/** @returns whether it is retired now */
async function retireUnlessUsed(
  operations: Pick<DeviceOperations, "retire">,
  retirement: Parameters<DeviceOperations["retire"]>[0],
): Promise<boolean> {
  try {
    await operations.retire(retirement);
    return true;
  } catch (error) {
    if (isStemmaError(error, "MODEL_IN_USE") || isStemmaError(error, "MODEL_HELD")) return false;
    throw error;
  }
}

const startBecause = (device: string): string => `a search has taken over what ${device} trained`;
