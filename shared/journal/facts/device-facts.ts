/** Facts about devices and batches of them: enrolment, standing, settings, what they run and are given. Types only. */
import type { Hash } from "../../tensor/tensor.js";
import type { Caused, Timed } from "./fact-members.js";

/** The part of a device's certificate that the server keeps. */
export interface DeviceCertificate {
  /** The serial number, lower-case hex. */
  readonly serial: string;
  /** The hash of its public key (shared/trust/certificates/connection-key.ts). */
  readonly keyHash: string;
  readonly notAfterMs: number;
  /** The owner's authority that it leads to; absent: the server's own. */
  readonly authority?: string;
  /** The issuer, which numbers count within (issuerIdOf); absent: the server's own authority. */
  readonly issuer?: string;
}

export type DeviceFact =
  /** Labels of a device, by key; null removes one. They stay when the device is enrolled again. */
  | (Caused & {
      readonly type: "labelled";
      readonly device: string;
      readonly labels: Readonly<Record<string, string | null>>;
    })
  | (Timed & {
      readonly type: "activated";
      readonly versionId: Hash;
      readonly device: string;
      readonly line: string;
      readonly deviceAtMs: number;
      readonly deviceClockErrorMs: number | null;
      readonly session: number;
      /** Position in the line's history on the device, from 1; absent: from an agent that does not count. */
      readonly number?: number;
    })
  /** Starts the device's next generation: sessions and activations count within it. */
  | (Caused & {
      readonly type: "enrolled";
      readonly device: string;
      /** The generation from 1; absent in older journals, where each enrolment counts one. */
      readonly generation?: number;
      readonly publicKey: string;
      /** Empty where the device has a certificate. */
      readonly tokenHash: string;
      readonly profile: string;
      readonly lines: readonly string[];
      /** The first certificate of a device that made its own keys. */
      readonly certificate?: DeviceCertificate;
      /** The batch with whose invitation it enrolled. */
      readonly batch?: string;
    })
  /** One invitation for many devices: the bounds within which they may enrol. */
  | (Caused & {
      readonly type: "batch-created";
      readonly batch: string;
      /** The public part of the key in the invitation. */
      readonly publicKey: string;
      /** Devices that may enrol, at most. */
      readonly count: number;
      readonly expiresAtMs: number;
      readonly profile: string;
      readonly lines: readonly string[];
      /** Names that they may have: a pattern, or a list; absent: any. */
      readonly namePattern?: string;
      readonly names?: readonly string[];
      /** Each is held until a person accepts it. */
      readonly hold: boolean;
      /** A device whose name is taken may enrol in place of that one. */
      readonly mayReplace: boolean;
      /** The labels that each is given. */
      readonly labels?: Readonly<Record<string, string>>;
      /** Version that each line starts from. */
      readonly initial?: Readonly<Record<string, Hash>>;
      /** The owner's authority whose certificate each has to have. */
      readonly authority?: string;
    })
  /** The end of a batch: no further device enrols with its invitation. */
  | (Caused & { readonly type: "batch-revoked"; readonly batch: string; readonly because: string })
  /** A device has renewed its certificate, or has connected with another one of its owner's authority. */
  | (Timed & {
      readonly type: "certified";
      readonly device: string;
      readonly generation: number;
      readonly certificate: DeviceCertificate;
    })
  | (Caused & { readonly type: "revoked"; readonly device: string; readonly because: string })
  /** The quarantine by the server, where two copies of an enrolment are in use; or by a person. */
  | (Caused & { readonly type: "quarantined"; readonly device: string; readonly because: string })
  | (Caused & { readonly type: "unquarantined"; readonly device: string; readonly because: string })
  /** A revoked device is not listed any more; its models and facts stay, and its name may be enrolled again. */
  | (Caused & { readonly type: "device-removed"; readonly device: string; readonly because: string })
  /** A person had everything erased that a revoked device gave; `retired` of its versions follows. */
  | (Caused & { readonly type: "device-erased"; readonly device: string; readonly because: string })
  /** Settings that a device is to have, by key (shared/wire/device-settings.ts); null removes one. */
  | (Caused & {
      readonly type: "settings";
      readonly device: string;
      readonly settings: Readonly<Record<string, string | number | null>>;
    })
  /** All settings that this generation of a device says it has from the server. */
  | (Timed & {
      readonly type: "settings-reported";
      readonly device: string;
      readonly generation: number;
      readonly settings: Readonly<Record<string, string | number>>;
    })
  | (Timed & { readonly type: "session"; readonly device: string; readonly session: number })
  /** A server model given to a device's line as its initial model or update. */
  | (Caused & {
      readonly type: "assigned";
      readonly device: string;
      readonly line: string;
      readonly versionId: Hash;
      /** The rollout that it belongs to; absent: a person assigned it. */
      readonly rollout?: string;
    })
  /** The server has sent this generation of the device every byte of the version that it had not already. */
  | (Timed & {
      readonly type: "given";
      readonly device: string;
      readonly generation: number;
      readonly versionId: Hash;
      /** Bytes of the blocks that were sent for it, and how long that took; absent in older journals. */
      readonly bytes?: number;
      readonly durationMs?: number;
    })
  /** The server sends a recipe to a device, which may name it from then on as what trained its models. */
  | (Timed & { readonly type: "recipe-given"; readonly device: string; readonly recipe: Hash });
