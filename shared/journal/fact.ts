/** The facts a journal keeps: everything that is true and may change over time. Types only. */
import type { Hash } from "../tensor/tensor.js";

interface At {
  /** Server (or local) clock, ms since 1970. */ readonly atMs: number;
}

export type Fact =
  /**
   * A version exists: its record and every object it needs lie in the store. `version` is the counter per
   * (fleet, name).
   */
  | (At & {
      readonly type: "recorded";
      readonly versionId: Hash;
      readonly name: string;
      readonly version: number;
      /**
       * Bytes of all tensors, and of those that the owner map gives to this version; absent where there are
       * none.
       */
      readonly tensorBytes?: number;
      readonly ownBytes?: number;
    })
  /** The server decoded the model from what it wrote and found its root. */
  | (At & { readonly type: "stored"; readonly versionId: Hash })
  /** The policy's conditions hold: the device may delete its copy. */
  | (At & { readonly type: "released"; readonly versionId: Hash; readonly because: string })
  | (At & {
      readonly type: "activated";
      readonly versionId: Hash;
      readonly device: string;
      readonly line: string;
      readonly deviceAtMs: number;
      readonly deviceClockErrorMs: number | null;
      readonly session: number;
    })
  | (At & { readonly type: "retired"; readonly versionId: Hash; readonly because: string })
  | (At & {
      readonly type: "tagged";
      readonly name: string;
      readonly tag: string;
      readonly versionId: Hash | null;
    })
  /** `by`: who said so, as they named themselves. */
  | (At & {
      readonly type: "held" | "unheld";
      readonly versionId: Hash;
      readonly because: string;
      readonly by?: string;
    })
  /**
   * A retention rule of the fleet, or of one line or one name in it (never both); the latest of a scope
   * holds, null lifts it.
   */
  | (At & {
      readonly type: "retention";
      readonly line: string | null;
      readonly name: string | null;
      readonly rule: string | null;
      readonly by?: string;
    })
  | (At & {
      readonly type: "enrolled";
      readonly device: string;
      readonly publicKey: string;
      readonly tokenHash: string;
      readonly profile: string;
      readonly lines: readonly string[];
    })
  | (At & { readonly type: "revoked"; readonly device: string; readonly because: string })
  | (At & { readonly type: "quarantined"; readonly device: string; readonly because: string })
  | (At & { readonly type: "session"; readonly device: string; readonly session: number })
  /** A server model given to a device's line as its initial model or update. */
  | (At & {
      readonly type: "assigned";
      readonly device: string;
      readonly line: string;
      readonly versionId: Hash;
    })
  | (At & {
      readonly type: "data";
      readonly name: string;
      readonly kind: string;
      readonly location: string;
      readonly parameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
      readonly hash: Hash | null;
      readonly removed?: boolean;
    })
  | (At & { readonly type: "backup"; readonly position: number; readonly location: string })
  /** This store was restored to an older state: devices announce again everything after `position`. */
  | (At & { readonly type: "restored"; readonly position: number; readonly lostFrom: number | null });

export type FactType = Fact["type"];
