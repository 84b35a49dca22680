/**
 * Facts about what a fleet has beside versions and devices: data, engines, recipes, releases, webhooks, the server's
 * key, backups and restores. Types only.
 */
import type { Hash } from "../../tensor/tensor.js";
import type { Caused } from "./fact-members.js";

/** The files that data were read from. */
export interface RawFiles {
  readonly count: number;
  readonly bytes: number;
  /** SHA-256 of the file; of several files, over the hashes of all. */
  readonly sha256: string;
  /** The latest time of change; absent where they were fetched. */
  readonly modifiedAtMs?: number;
}

export type FleetFact =
  | (Caused & {
      readonly type: "data";
      readonly name: string;
      readonly kind: string;
      readonly location: string;
      readonly parameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
      readonly hash: Hash | null;
      /** The files; undefined for samples that a reader makes, and in facts of earlier releases. */
      readonly files?: RawFiles;
      /** Manifest of the stored data set (kind "data"), where its samples were stored. */
      readonly object?: Hash;
      /** Description by its reader when they were stored (kind "data", data-description.ts). */
      readonly description?: Hash;
      readonly removed?: boolean;
    })
  /** An object that may be redacted (kind "openings") is dropped. Its absence is not damage. */
  | (Caused & { readonly type: "redacted"; readonly object: Hash; readonly because: string })
  /** A training engine is in the store, and may be run here: from this server's own build, or approved. */
  | (Caused & {
      readonly type: "engine-approved";
      /** The stored archive, as save records name it. */
      readonly engine: Hash;
      /** The id that trainings with it report. */
      readonly engineId: Hash;
      readonly source: "build" | "approval";
      readonly because: string;
    })
  /** The engine may not be run here any more; the next collection removes it. */
  | (Caused & { readonly type: "engine-removed"; readonly engine: Hash; readonly because: string })
  /** The owner's signed releases changed: these are all that are valid now. */
  | (Caused & {
      readonly type: "published";
      /** An older release would offer versions without what devices demand. */
      readonly critical: true;
      /** Object of the kind "release": metadata and manifests. */
      readonly object: Hash;
      /** Versions of the metadata. */
      readonly root: number;
      readonly targets: number;
      readonly timestamp: number;
      /** The effect of the change, for people. */
      readonly because: string;
    })
  /** A fleet's own recipe is in the store, and may be run here. */
  | (Caused & {
      readonly type: "recipe-approved";
      /** The bundle, as save records name it. */
      readonly recipe: Hash;
      readonly name: string;
      /** The recipe's own number. */
      readonly version: number;
      readonly because: string;
    })
  /** The recipe may not be run any more. What it trained stays. */
  | (Caused & { readonly type: "recipe-revoked"; readonly recipe: Hash; readonly because: string })
  /** The server sends this fleet's facts to an address, from another position on, or no more. */
  | (Caused & {
      readonly type: "webhook";
      readonly name: string;
      readonly change: "added" | "moved" | "removed";
      /** Host and port: the rest of an address can be a secret. */
      readonly host: string;
      /** The next fact that it gets; null where it was removed. */
      readonly from: number | null;
    })
  /** A query has a name, by which other queries begin from it, or does not have it any more. */
  | (Caused & {
      readonly type: "query";
      readonly name: string;
      readonly change: "saved" | "deleted";
      /** The text of a saved query. */
      readonly text?: string;
    })
  /** The server has another key since then: what it signs from here on is signed by that one. */
  | (Caused & {
      readonly type: "server-key";
      /** Ed25519, hex. */
      readonly publicKey: string;
      readonly before: string;
      /** The key before was withdrawn: what it signs from now on counts for nothing. */
      readonly revoked: boolean;
    })
  | (Caused & { readonly type: "backup"; readonly position: number; readonly location: string })
  /**
   * The fact that this store was restored to an older state: devices announce everything from `position` on
   * again. `lostFrom` is the same where no backup holds what is before it (a salvage, a restore that a person
   * declares). `id`: 32 random hexadecimal digits, so that no other restore is the same fact: a device
   * accepts each once. Absent in journals of earlier releases.
   */
  | (Caused & {
      readonly type: "restored";
      readonly position: number;
      readonly lostFrom: number | null;
      readonly id?: string;
    })
  /** The fleet's owner signed a restore: devices that demand releases go on after it. */
  | (Caused & {
      readonly type: "restore-approved";
      /** Position of the fact `restored`. */
      readonly restore: number;
      /** JSON with the signatures (shared/trust/releases/restore-approval.ts). */
      readonly approval: string;
    })
  /** The fleet's owner stated the time: devices go on from it. */
  | (Caused & {
      readonly type: "time-stated";
      readonly number: number;
      /** JSON with the signatures (shared/trust/releases/owner-time.ts). */
      readonly statement: string;
    });
