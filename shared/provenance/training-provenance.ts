/** The provenance of a training, from what its engine reported and from what its caller knows. */
import { defined } from "../defined.js";
import { encodeEnvironment, type Environment } from "../model/environment.js";
import type { Caller } from "../journal/caller.js";
import type { Random } from "../ports.js";
import { isHash, objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import type { TrainingResult } from "../train/training.js";
import { makeProvenance, type ProvenanceObjects } from "./make-provenance.js";
import type {
  CommittedMembers,
  DataDescription,
  ParameterOrigin,
  Scalar,
  StateBefore,
} from "./provenance.js";

export interface FinishedTraining {
  readonly result: Pick<TrainingResult, "engine" | "backend" | "provenance" | "durationMs" | "datasetHash">;
  readonly bases: readonly Hash[];
  readonly environment: Environment;
  /** Names of the parameters that the call passed; others that were passed come from a configuration file. */
  readonly called: readonly string[];
  /** Name under which the data are registered in the fleet. */
  readonly dataName?: string | undefined;
  /** Milliseconds since 1970. */
  readonly endedAtMs: number;
  /** Null: a schedule began it. */
  readonly by: Caller | null;
  readonly notes?: CommittedMembers["notes"];
}

/**
 * Makes the provenance of a training; what an engine does not report is left out, and without its recipe the
 * training cannot be replayed.
 */
export function provenanceOfTraining(
  finished: FinishedTraining,
  random: Pick<Random, "bytes">,
): ProvenanceObjects {
  const { result, bases, environment } = finished;
  const reported = membersOf(result.provenance);
  const { name, version, bundle } = membersOf(reported["recipe"]);
  const recipe = isHash(bundle)
    ? { bundle }
    : typeof name === "string" && (typeof version === "string" || typeof version === "number")
      ? { name, version: String(version) }
      : undefined;
  return makeProvenance(
    {
      engine: result.engine,
      recipe,
      exactness: recipe === undefined ? "none" : result.backend.backend,
      bases,
      data: [result.datasetHash],
      environment: objectId("environment", encodeEnvironment(environment)),
    },
    committedOf(finished, reported),
    random,
  );
}

type Members = Readonly<Record<string, unknown>>;

function committedOf(finished: FinishedTraining, reported: Members): CommittedMembers {
  const { result, endedAtMs, by } = finished;
  const random = membersOf(reported["random"]);
  return {
    parameters: parametersOf(membersOf(reported["parameters"]), finished.called),
    ...(random["seed"] === undefined
      ? {}
      : { random: random as unknown as NonNullable<CommittedMembers["random"]> }),
    state: stateOf(membersOf(reported["optimizer"])),
    data: [dataOf(membersOf(reported["dataset"]), finished.dataName)],
    course: courseOf(reported),
    times: { endedAtMs: Math.round(endedAtMs), workMs: Math.round(result.durationMs) },
    by,
    ...defined({ notes: finished.notes }),
  };
}

function parametersOf(
  { passed, defaulted }: Members,
  called: readonly string[],
): NonNullable<CommittedMembers["parameters"]> {
  return {
    ...withOrigin(membersOf(defaulted), () => "default"),
    ...parametersWithOrigin(membersOf(passed), called),
  };
}

/** Parameters of a training: those that the call named, and others from a configuration file. */
export function parametersWithOrigin(
  parameters: Members,
  called: readonly string[],
): NonNullable<CommittedMembers["parameters"]> {
  return withOrigin(parameters, (name) => (called.includes(name) ? "call" : "file"));
}

function withOrigin(
  parameters: Members,
  originOf: (name: string) => ParameterOrigin,
): NonNullable<CommittedMembers["parameters"]> {
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [
      name,
      { value: value as Scalar, from: originOf(name) },
    ]),
  );
}

/** Every object with a state (MM9). All but the optimizer begin each training in their initial state. */
function stateOf({ stateBefore, ...settings }: Members): Readonly<Record<string, StateBefore>> {
  const { sha256 } = typeof stateBefore === "object" ? membersOf(stateBefore) : {};
  return {
    optimizer: { before: isHash(sha256) ? sha256 : "initial", settings },
    schedule: { before: "initial" },
    loader: { before: "initial" },
    generators: { before: "initial" },
  };
}

/** Members that a record takes over from a reader's description of its samples. */
export const describedMembers = ["format", "columns", "transformations", "split"] as const;

/**
 * Describes the data without the folder that the samples were in: it means nothing elsewhere, and may name a person.
 */
function dataOf(dataset: Members, name: string | undefined): DataDescription {
  const source = membersOf(dataset["source"]);
  return {
    reader: dataset["reader"],
    parameters: membersOf(dataset["parameters"]) as Readonly<Record<string, Scalar | readonly string[]>>,
    ...defined({ name }),
    ...Object.fromEntries(describedMembers.map((member) => [member, source[member]])),
    samples: membersOf(dataset["samples"]) as DataDescription["samples"],
  } as DataDescription;
}

const courseMembers = ["iterations", "epochs", "bestEpoch", "stoppedEarly", "frozenLayers"];

function courseOf(reported: Members): Members {
  return Object.fromEntries(courseMembers.map((name) => [name, reported[name]]));
}

function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}
