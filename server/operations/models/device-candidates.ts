/**
 * The candidates of an evaluation that devices train: what each begins from, what is believed of a device, and the
 * version that it becomes, whose parent is the version that the device reported, with its provenance.
 */
import { readdir } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { byOf } from "../../../shared/journal/caller.js";
import { weightSlots } from "../../../shared/model/architecture.js";
import { inheritableKey, type ModelMetadata } from "../../../shared/model/metadata.js";
import type { ModelSource } from "../../../shared/model/model.js";
import { canonicalMeasurements } from "../../../shared/provenance/measurement-forms.js";
import { valueOf } from "../../../shared/provenance/openings.js";
import type { CommittedMembers } from "../../../shared/provenance/provenance.js";
import { Streams } from "../../../shared/random/streams.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { holdsRight } from "../../interface/api/rights.js";
import type { OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import {
  DeviceTrainings,
  openDeviceNotes,
  type CandidateStart,
  type DeviceNotes,
  type DeviceOutcome,
  type DevicePorts,
} from "../../learning/enumeration/train-on-devices.js";
import { holderOf } from "../../learning/enumeration/source-lease.js";
import type { TrainedSoFar, WantedFigure } from "../../learning/enumeration/train-candidate.js";
import { DeviceEvents } from "../../learning/nas/device-events.js";
import { DeviceWork, type AskedTraining } from "../../learning/nas/device-work.js";
import { HeldLine } from "../../learning/nas/held-line.js";
import { ableDevices } from "../../learning/nas/search-devices.js";
import { retireStart, startNameOf } from "../../learning/nas/train-on-device.js";
import { parametersOf, type PlannedCandidate } from "../../learning/query/evaluate/plan-evaluation.js";
import { declaredFor, findOwnRecipe } from "../../learning/training/own-recipes.js";
import { layoutFrom } from "../../services/context/inherited-layout.js";
import { requireDataset } from "../../services/context/named-data.js";
import { readOpenedProvenance } from "../../services/context/opened-provenance.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import { sendCommand } from "../devices/device-operations.js";
import { messageOfResult } from "../devices/required-device.js";
import { noServerRuns } from "../devices/device-errors.js";
import type { CandidateWorkOptions } from "./candidate-work.js";
import { metadataOf, titleOf } from "./candidate-versions.js";
import { derivedSource, inheritableLeaves } from "./save-derived.js";

/** The folder of the evaluation that a start is of, which those with another seed or other settings do not share. */
const runKey = "evaluate.run";
/** Minutes that a device may take to run a candidate's start, and then to train it. */
const defaultPatience = 30;

type Asked = Pick<OperationInput<"evaluateQuery">, "line" | "patience"> & { readonly on: string };

interface DeviceCandidatesOptions extends Omit<CandidateWorkOptions, "limits"> {
  readonly asked: Asked;
  readonly operations: ServerOperations;
}

/** A line of devices for one evaluation alone. */
interface OpenedLine {
  readonly line: string;
  readonly data: string;
  readonly able: readonly string[];
  readonly others: Awaited<ReturnType<typeof ableDevices>>["others"];
  readonly notes: DeviceNotes;
  readonly held: HeldLine;
}

/** @throws SERVER_UNREACHABLE, NOT_ALLOWED, USAGE */
export function requireDevicesAllowed(
  { live, grant }: OperationsContext,
  { maxMinutes }: OperationInput<"evaluateQuery">,
): void {
  if (live === undefined) throw noServerRuns("Devices are reached");
  if (maxMinutes !== undefined)
    throw new StemmaError(
      "USAGE",
      "--max-minutes is for trainings on the server. With --on, use --patience.",
    );
  if (holdsRight(grant, "deploy") && holdsRight(grant, "change-devices")) return;
  throw new StemmaError(
    "NOT_ALLOWED",
    `A token with the role ${grant?.role ?? ""} may not have devices train. Use one of an operator.`,
  );
}

export class DeviceCandidates {
  readonly #trainings: DeviceTrainings;
  /** The devices that took no part, or were given up, each with the reason. */
  readonly others: { readonly device: string; readonly why: string }[];
  readonly #held: HeldLine;
  readonly #trainedOn = new Map<number, string>();

  private constructor(
    private readonly context: OperationsContext,
    private readonly options: DeviceCandidatesOptions,
    private readonly events: DeviceEvents,
    {
      devices,
      others,
      notes,
      held,
    }: Pick<DeviceCandidates, "others"> & {
      readonly devices: readonly DeviceWork[];
      readonly notes: DeviceNotes;
      readonly held: HeldLine;
    },
  ) {
    const { asked, signal } = options;
    this.others = others;
    this.#held = held;
    this.concurrency = devices.length;
    this.#trainings = new DeviceTrainings({
      ...{ devices, line: lineOf(asked), notes, signal, ports: this.#ports() },
      isOwn: options.plan.query.combinations.every(({ recipe }) => recipe === undefined),
    });
  }

  readonly concurrency: number;
  readonly mayTrainAgain = true;

  /** @throws USAGE, SEARCH_WORKER_LOST where no device can take part, SELECTION_INVALID, DATASET_UNKNOWN */
  static async open(context: OperationsContext, options: DeviceCandidatesOptions): Promise<DeviceCandidates> {
    const { fleet, plan, asked } = options;
    const [first = "", second] = new Set(plan.query.combinations.map((each) => each.data));
    if (second !== undefined)
      throw new StemmaError(
        "USAGE",
        "Devices train on data of their own; input_data is what the server measures on. Name one, or leave --on away.",
      );
    await requireDataset(context, fleet, first);
    const line = lineOf(asked);
    const { operations, folder, seed, query } = options;
    const { able, others } = await ableDevices(operations, { fleet, select: asked.on, line });
    const { clock, random } = context.home.ports;
    const holder = holderOf({ seed, query });
    const held = await HeldLine.take({ operations, fleet, line, holder, clock, random });
    try {
      const notes = await openDeviceNotes(nodeFiles(), folder);
      await retireLeft(options, notes);
      return DeviceCandidates.#open(context, options, { line, data: first, able, others, notes, held });
    } catch (error) {
      await held.end();
      throw error;
    }
  }

  static #open(
    context: OperationsContext,
    options: DeviceCandidatesOptions,
    { line, data, able, others, notes, held }: OpenedLine,
  ): DeviceCandidates {
    const { operations, fleet, asked } = options;
    const { clock } = context.home.ports;
    const events = new DeviceEvents(operations, clock);
    const evaluations = new SerialQueue();
    const devices = able.map(
      (device) =>
        new DeviceWork({
          ...{ operations, events, evaluations, clock, fleet, device, line, held, data },
          patienceMs: (asked.patience ?? defaultPatience) * 60_000,
          request: async (training) => {
            (await context.live?.fleet(fleet))?.lineLeases.require(line, held.key);
            return await askToTrain(context, options, device, training);
          },
        }),
    );
    return new DeviceCandidates(context, options, events, { devices, others: [...others], notes, held });
  }

  async close(): Promise<void> {
    await this.#trainings.close();
    await this.events.close();
    await this.#held.end();
  }

  /** The device that trained a candidate last. */
  deviceOf(candidate: number): string | undefined {
    return this.#trainedOn.get(candidate);
  }

  async train(candidate: number, wanted: WantedFigure | undefined): Promise<TrainedSoFar<DeviceOutcome>> {
    return await this.#trainings.train(candidate, wanted);
  }

  forget(candidate: number): Promise<void> {
    return this.#trainings.forget(candidate);
  }

  /** Saves what a device reported by the candidate's name. */
  async save(candidate: number, { versionId, device, result }: DeviceOutcome): Promise<Hash> {
    const { repository } = this.options;
    const planned = this.#candidate(candidate);
    const { model } = planned;
    this.#trainedOn.set(candidate, device);
    const known = repository
      .versions({ name: model.keptName })
      .find(({ record }) => record.bases[0] === versionId);
    if (known !== undefined) return known.versionId;
    const source = await modelOf(this.options, versionId);
    return await this.#save(source, repository.resolve(versionId), {
      name: model.keptName,
      measurements: canonicalMeasurements(result.measurements),
      metadata: { ...metadataOf(planned, this.options), "evaluate.device": device },
    });
  }

  #candidate(number: number): PlannedCandidate {
    return this.options.plan.candidates[number - 1] as PlannedCandidate;
  }

  async #save(
    model: ModelSource,
    base: VersionSummary,
    options: {
      readonly name: string;
      readonly metadata: ModelMetadata;
      readonly bases?: readonly Hash[];
      readonly measurements?: ReturnType<typeof canonicalMeasurements>;
    },
  ): Promise<Hash> {
    const { repository, lease } = this.options;
    const layout = await layoutFrom(repository, base, model);
    const { summary } = await repository.save(model, {
      bases: [base.versionId],
      lease,
      ...layout,
      ...options,
    });
    (await this.context.live?.fleet(repository.fleet))?.saved(summary.versionId);
    return summary.versionId;
  }

  #ports(): DevicePorts {
    const { fleet, plan, asked, onProgress } = this.options;
    return {
      start: (candidate, known) => this.#start(candidate, known),
      check: (what) => this.#check(what),
      outcome: (versionId, device, signal) => this.#outcome(versionId, device, signal),
      clear: async (candidate, start) => {
        const { keptName } = this.#candidate(candidate).model;
        await retireWhatIsNotKept(this.options, { start, keptName, line: lineOf(asked) });
      },
      command: (device, name, body) => sendCommand(this.context, { fleet, device, name, body }),
      onStep: (candidate, device, step = 0) => {
        const title = titleOf(plan, this.#candidate(candidate));
        onProgress?.({ state: "running", line: `${title}: step ${step} on ${device}` });
      },
      onLost: (device, { message }) => {
        this.others.push({ device, why: message });
        onProgress?.({ state: "running", line: message });
      },
    };
  }

  /** A version of its own for each candidate, by which what devices report is told apart. */
  async #start(number: number, known: Hash | undefined): Promise<CandidateStart> {
    const { repository, seed, lease, folder } = this.options;
    const { model } = this.#candidate(number);
    const parameters = this.#parameters(number);
    if (known !== undefined && repository.get(known)?.state !== "retired")
      return { start: known, parameters };
    const { row, derived } = model;
    const source =
      derived === undefined
        ? await modelOf(this.options, row.versionId)
        : await derivedSource(
            repository,
            await inheritableLeaves(repository, row.versionId, { ...derived, lease }),
            derived.model,
            new Streams(seed, 0),
          );
    const inherited = derived?.inherited?.row.versionId;
    const start = await this.#save(source, repository.resolve(row.versionId), {
      name: startNameOf(model.keptName),
      bases: [...new Set([row.versionId, ...(inherited === undefined ? [] : [inherited])])],
      metadata: {
        ...{ "evaluate.candidate": number, "evaluate.seed": seed },
        ...{ [runKey]: basename(folder), [inheritableKey]: false },
      },
    });
    return { start, parameters };
  }

  async #check({ candidate, start, trained, device }: Parameters<DevicePorts["check"]>[0]): Promise<void> {
    const { repository } = this.options;
    const { frozenLayers } = this.#candidate(candidate);
    const before = repository.resolve(start).record.objects.architecture;
    if (before === undefined || trained.record.objects.architecture !== before)
      throw device.lost("it reported a model of another architecture than the one it was given");
    const frozen = new Set(frozenLayers);
    const layers = weightSlots(await repository.architecture(before)).map(({ layer }) => layer);
    const [given, got] = [await repository.leaves(start), await repository.leaves(trained.versionId)];
    const changed = given.find(
      ({ tensor }, leaf) => frozen.has(layers[leaf] ?? -1) && got[leaf]?.tensor !== tensor,
    );
    if (changed !== undefined)
      throw device.lost(`it changed the tensor ${changed.path}, whose layer was not to be trained`);
    await this.#checkStory(candidate, { trained, device });
  }

  /** Looks at what a device tells of a training, which is all that is known of it here. */
  async #checkStory(
    candidate: number,
    { trained, device }: Pick<Parameters<DevicePorts["check"]>[0], "trained" | "device">,
  ): Promise<void> {
    const { repository } = this.options;
    const { combination } = this.#candidate(candidate);
    const { recipe: wanted } = combination;
    const opened = await readOpenedProvenance(repository, trained.record.objects);
    const recipe = opened?.provenance.recipe;
    const course = opened && (valueOf(opened, "course") as { readonly kind?: unknown } | undefined);
    const isOwn = recipe === undefined && course?.kind === "external trainer";
    const own = wanted === undefined ? undefined : findOwnRecipe(repository, wanted);
    const used = recipe === undefined ? undefined : "bundle" in recipe ? recipe.bundle : recipe.name;
    if (opened === undefined || (wanted === undefined ? !isOwn : used !== (own?.recipe ?? wanted)))
      throw device.lost(
        `its line trains with ${used ?? (isOwn ? "a program of its own" : "an unknown recipe")}, and ` +
          `${wanted ?? "one with a program of its own"} was asked for`,
      );
    const parameters = this.#parameters(candidate);
    const asked =
      wanted === undefined
        ? parameters
        : await declaredFor(this.context, { repository, own, name: wanted }, parameters);
    const told = (valueOf(opened, "parameters") ?? {}) as NonNullable<CommittedMembers["parameters"]>;
    const other = Object.keys(asked).find((name) => told[name]?.value !== asked[name]);
    if (other !== undefined)
      throw device.lost(`it does not tell that it trained with ${other} ${String(asked[other])}`);
  }

  #parameters(candidate: number): CandidateStart["parameters"] {
    return parametersOf(this.#candidate(candidate));
  }

  async #outcome(versionId: Hash, device: DeviceWork, signal: AbortSignal): Promise<DeviceOutcome["result"]> {
    const { operations, fleet, plan } = this.options;
    const { measurements = [] } = await operations.model({ fleet, model: versionId });
    const { figure } = plan.query;
    if (["loss", "validation", "validation loss"].includes(figure)) return { measurements, metric: null };
    const { metric } = await device.measure(versionId, signal);
    const after = metric.value;
    return { measurements, metric: after === null ? null : { name: metric.name, after } };
  }
}

const lineOf = ({ line = "search" }: Asked): string => line;

async function modelOf(
  { repository, lease }: Pick<DeviceCandidatesOptions, "repository" | "lease">,
  versionId: Hash,
): Promise<ModelSource> {
  await repository.ensureTensors(versionId);
  const { architecture, leaves, sources, names } = await repository.recover(versionId, { lease });
  if (architecture === undefined) throw new TypeError("a planned model has no architecture");
  return { kind: "architecture", architecture, leaves, sources, names };
}

async function askToTrain(
  context: OperationsContext,
  { fleet, asked }: DeviceCandidatesOptions,
  device: string,
  { parameters, isJudged }: AskedTraining,
): Promise<{ readonly accepted: boolean; readonly message: string }> {
  const { code, result } = await sendCommand(context, {
    ...{ fleet, device, name: "train" },
    body: { line: lineOf(asked), parameters, judged: isJudged === true, ...byOf({ by: context.caller }) },
  });
  return { accepted: code === "", message: messageOfResult(result) ?? code };
}

/**
 * Retires what earlier evaluations left that were not continued. Others of the same query, whose seed or settings
 * differ, may run on another line, or go on later: what these began from stays.
 */
async function retireLeft(options: DeviceCandidatesOptions, { events }: DeviceNotes): Promise<void> {
  const { repository, operations, fleet, plan, asked, folder } = options;
  const noted = new Set(events.flatMap((event) => (event.event === "given" ? [event.start] : [])));
  const runs = new Set((await readdir(dirname(folder))).filter((name) => name !== basename(folder)));
  for (const keptName of new Set(plan.candidates.map(({ model }) => model.keptName)))
    for (const { versionId: start } of repository.versions({ name: startNameOf(keptName) })) {
      if (noted.has(start)) continue;
      const { metadata } = await operations.model({ fleet, model: start });
      if (!runs.has(String(metadata?.[runKey])))
        await retireWhatIsNotKept(options, { start, keptName, line: lineOf(asked) });
    }
}

async function retireWhatIsNotKept(
  { operations, repository, fleet }: DeviceCandidatesOptions,
  { start, keptName, line }: { readonly start: Hash; readonly keptName: string; readonly line: string },
): Promise<void> {
  const kept = new Set(repository.versions({ name: keptName }).flatMap(({ record }) => record.bases));
  await retireStart(operations, { fleet, start, line, kept, because: "an evaluation did not keep it" });
}
