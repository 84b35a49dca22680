/** Answers of a repository about devices. Types only. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { DeviceSettings } from "../../../../shared/wire/device-settings.js";
import type { DeviceCertificate } from "../../../../shared/journal/facts/device-facts.js";
import type { Ended } from "./version-answers.js";

export interface DeviceSummary {
  readonly device: string;
  readonly profile: string;
  readonly lines: readonly string[];
  /** Counts the enrolments of this name, from 1. */
  readonly generation: number;
  /** The time when this generation was enrolled. */
  readonly enrolledAtMs: number;
  readonly enrolledBy?: string;
  /** The batch with whose invitation it enrolled. */
  readonly batch?: string;
  /** Quarantined until a person accepts it. */
  readonly waits?: true;
  readonly revoked?: Ended;
  readonly quarantined?: Ended;
  /** Revoked, and not listed any more. */
  readonly removed?: Ended;
  readonly erased?: Ended;
  /** The settings; absent: nobody has set anything on it. */
  readonly settings?: SettingsSummary;
  /** The version that each line was given last, where it was given one. */
  readonly assigned?: Readonly<Record<string, Assignment>>;
  readonly state: "enrolled" | "revoked" | "quarantined";
  /** Given by people, by key; absent: none. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The time when it last connected or reported what it runs, milliseconds since 1970; absent: never. */
  readonly seenAtMs?: number;
  /** Highest session of this generation; 0: none. */
  readonly session: number;
  readonly publicKey: string;
  readonly tokenHash: string;
  /** The certificates that open its connection, oldest first; absent: its token does. */
  readonly certificates?: readonly DeviceCertificate[];
  readonly active: Readonly<
    Record<
      string,
      {
        readonly versionId: Hash;
        readonly deviceAtMs: number;
        readonly deviceClockErrorMs: number | null;
        readonly serverAtMs: number;
        /** Position in the line's history on the device; absent: its agent does not count. */
        readonly number?: number;
      }
    >
  >;
}

/** The settings that a device is to have, and those that it reports. */
export interface SettingsSummary {
  readonly desired: DeviceSettings;
  /** The time of their last change. */
  readonly desiredAtMs?: number;
  readonly by?: string;
  /** Null: this generation has not said. */
  readonly reported: DeviceSettings | null;
  readonly reportedAtMs?: number;
}

/** A version that was given to a line of a device. */
export interface Assignment {
  readonly versionId: Hash;
  readonly atMs: number;
  /** The rollout that assigned it, or took it back. */
  readonly rollout?: string;
  readonly by?: string;
}

/** The version that a device ran at a moment, or unknown (MM12). */
export interface FleetMoment {
  readonly device: string;
  readonly line: string;
  readonly versionId: Hash | "unknown";
  readonly why: string;
  readonly sinceMs?: number;
  readonly uncertainMs?: number | null;
}
