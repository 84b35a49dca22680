/**
 * Defines the messages between the command that simulates a fleet and the processes of its devices. Between
 * processes of one program on one machine: types only.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Invitation } from "../trust/certificates/invitation.js";
import type { Enrolment } from "../trust/enrolment.js";
import type { LinkShape } from "./link-shapes.js";

/**
 * The admission of a device: with keys and a token that the server made, or with an invitation, for keys of its own.
 */
export type Admission = { readonly enrolment: Enrolment } | { readonly invitation: Invitation };

export interface DeviceOrder {
  readonly device: string;
  readonly line: string;
  /** Name of its device class. */
  readonly profile: string;
  readonly admission: Admission;
  readonly link: LinkShape;
  /** The seed, from which everything that the device draws follows. */
  readonly seed: number;
  /** Milliseconds after the order, at each of which the device saves a fine-tuned model. */
  readonly savesAtMs: readonly number[];
  /** Share of the model's bytes that a fine-tune changes: whole tensors, the last ones. */
  readonly changes: number;
  /** The answers to a rollout that has it measure a version beside what it runs. */
  readonly answers: SimulatedAnswers;
}

export interface SimulatedAnswers {
  readonly samples: number;
  /** Mean difference of the losses: the new version's less those of what the device runs; below 0 it is better. */
  readonly meanDifference: number;
  readonly standardDeviation: number;
}

export type HostOrder =
  | { readonly do: "add"; readonly devices: readonly DeviceOrder[] }
  /** More saves, counted from now. */
  | { readonly do: "save"; readonly savesAtMs: Readonly<Record<string, readonly number[]>> }
  | { readonly do: "report" }
  | { readonly do: "end" };

/** A model that a device saved. */
export interface SimulatedSave {
  readonly device: string;
  readonly versionId: Hash;
  /** The newest of the server's receipts that the device has. */
  readonly standing: "pending" | "recorded" | "stored" | "released";
  /** Milliseconds from its first announcement to the first receipt; absent: it has no receipt yet. */
  readonly recordedAfterMs?: number;
}

/** The report of what the devices of one process did so far. */
export interface HostReport {
  readonly devices: number;
  readonly connected: number;
  /** Devices by the version that they run. */
  readonly runs: Readonly<Record<Hash, number>>;
  readonly saves: readonly SimulatedSave[];
  /** Saves that are still to come. */
  readonly savesToCome: number;
  readonly bytesUp: number;
  readonly bytesDown: number;
  /** The number of links that broke. */
  readonly breaks: number;
  /** Warnings and errors that the agents logged, by event; without those of links that broke. */
  readonly troubles: Readonly<Record<string, number>>;
  /** Texts of the newest of them. */
  readonly examples: readonly string[];
  /** Memory of the process. */
  readonly residentBytes: number;
}
