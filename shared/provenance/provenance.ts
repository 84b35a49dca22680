/**
 * Defines the provenance of a training, as a version keeps it (docs/formats.md, "Provenance"). What
 * identifies shared objects is stated plainly; what may be redacted is a commitment, whose value is in the
 * openings, an object of its own. Types and names only.
 */
import type { Caller } from "../journal/caller.js";
import type { Hash } from "../tensor/tensor.js";

export type Scalar = string | number | boolean;

/** A built-in recipe is inside the engine; a fleet's own is an object of kind "recipe". */
export type RecipeReference = { readonly name: string; readonly version: string } | { readonly bundle: Hash };

/** The machine that must match for a replay to give the same bits. */
export type ExactnessClass = "wasm" | "native" | "none";

export interface Provenance {
  /** The engine; undefined: no engine of Stemma trained it, so it cannot be replayed. */
  readonly engine: Hash | undefined;
  readonly recipe: RecipeReference | undefined;
  readonly exactness: ExactnessClass;
  /** Version ids that the training began from. */
  readonly bases: readonly Hash[];
  /** Content hash of each data set, in the order of the committed descriptions. */
  readonly data: readonly Hash[];
  /** Object of kind "environment". */
  readonly environment: Hash;
  /** Member → commitment to its value. */
  readonly committed: Readonly<Record<string, Hash>>;
}

/** The origin of a parameter's value: a configuration file, the call that began the training, or the recipe. */
export type ParameterOrigin = "file" | "call" | "default";

export interface DataDescription {
  /** The reader, or what else produced the samples. */
  readonly reader: string;
  readonly parameters?: Readonly<Record<string, Scalar | readonly string[]>>;
  /** Name under which the data are registered in the fleet. Never a path. */
  readonly name?: string;
  readonly format?: unknown;
  readonly columns?: unknown;
  readonly transformations?: unknown;
  readonly split?: unknown;
  readonly samples?: Readonly<Record<string, number>>;
}

/** State of an object before the training: "initial", or the hash of the state that it continued from. */
export interface StateBefore {
  readonly before: "initial" | Hash;
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** The facts of a machine that decide the bits of a user's own program. */
export interface MachineFacts {
  readonly os: string;
  readonly arch: string;
  readonly cpu: string;
  /** The version of the C library; "" where it is not known. */
  readonly libc: string;
  /** SHA-256 of the interpreter; absent where the program is an executable of its own. */
  readonly interpreter?: string;
}

/** The program of the user's own that trained a version, as far as a replay needs it. */
export interface ProgramRecord {
  /** The object with command and files (shared/programs/program-bundle.ts), which the version has as an attachment. */
  readonly bundle: Hash;
  /** SHA-256 of the job.json that it was given. */
  readonly job: string;
  /** The limits that its job states. */
  readonly limits: {
    readonly memoryLimitMb: number;
    readonly threads: number;
    readonly timeoutSeconds: number;
    readonly maxOutputBytes: number;
  };
  /** The machine that it ran on. */
  readonly machine: MachineFacts;
  /** The libraries of the program, then those of each program that it started; absent: not recorded. */
  readonly libraries?: readonly LoadedLibraries[];
  /** Content hash of the profile of what it drew, which is among the version's data; absent: not recorded. */
  readonly randomness?: Hash;
}

/** The shared libraries of a process when it ended, in the order in which they were loaded. */
export interface LoadedLibraries {
  readonly program: string;
  readonly libraries: readonly LoadedLibrary[];
}

export interface LoadedLibrary {
  /** The name of the file; never a path. */
  readonly name: string;
  /** SHA-256 of the file after the run; absent where it could not be read, or is one of very many bytes. */
  readonly sha256?: string;
}

/** A device whose model was not taken into an average, and why. */
export interface LeftOut {
  readonly device: string;
  readonly because: string;
  /** The newest version of the line there, where it has one. */
  readonly versionId?: Hash;
}

/** The making of a version as the average of its bases, as far as a replay needs it, and how the bases were chosen. */
export interface AverageRecord {
  /** The number of the arithmetic (shared/average/average-numbers.ts). */
  readonly arithmetic: number;
  readonly rule: "mean" | "weighted" | "trimmed";
  /** A weight for each base, in their order. */
  readonly weights?: readonly number[];
  /** The count of the smallest, and of the largest, numbers that were left out at each position. */
  readonly trimmedEach?: number;
  /** The choice of the bases, where they are the newest versions of a line on devices. */
  readonly chosen?: {
    readonly line: string;
    readonly selection: string;
    readonly weights: "samples" | "equal";
    /** Counts were capped at so many times their median. */
    readonly maxWeight?: number;
    /** The counts that the devices stated, in the order of the bases. */
    readonly samples?: readonly number[];
    /** Models further away than so many times the median distance were left out. */
    readonly outliers?: number;
    /** The first of them by name. */
    readonly leftOut: readonly LeftOut[];
    readonly leftOutCount: number;
  };
}

/** The values of the committed members. Any may be redacted. */
export interface CommittedMembers {
  readonly parameters?: Readonly<Record<string, { readonly value: Scalar; readonly from: ParameterOrigin }>>;
  readonly random?: {
    /** The generator of random numbers; absent where the trainer was another program, which draws its own numbers. */
    readonly generator?: string;
    /** Decimal, unsigned 64 bits. */
    readonly seed: string;
    /** The number of earlier invocations of the trainer: the k-th call from 0 has count k (ME9). */
    readonly invocation: number;
    /** Stream → numbers drawn from it. */
    readonly streams?: Readonly<Record<string, number>>;
  };
  /** Every stateful object by its name: optimizer, schedule, loader, generators (MM9). */
  readonly state?: Readonly<Record<string, StateBefore>>;
  readonly data?: readonly DataDescription[];
  /** The program that trained it, where it was one of the user's own and its owner has it recorded. */
  readonly program?: ProgramRecord;
  /** The average that it is, where no training made it. */
  readonly average?: AverageRecord;
  /** Course of the training: iterations, epochs, best epoch, frozen layers. */
  readonly course?: Readonly<Record<string, unknown>>;
  readonly times?: {
    /** Milliseconds since 1970, by the trainer's clock. */
    readonly endedAtMs: number;
    /** Milliseconds of work, of all processes together where the training was cut short. */
    readonly workMs: number;
  };
  /** The caller who began the training. Null: a schedule. */
  readonly by?: Caller | null;
  readonly notes?: Readonly<Record<string, Scalar>> | undefined;
}

/** The committed members that this release knows, in the order in which they are shown. */
export const committedMembers = [
  "parameters",
  "random",
  "state",
  "data",
  "course",
  "program",
  "average",
  "times",
  "by",
  "notes",
] as const satisfies readonly (keyof CommittedMembers)[];
