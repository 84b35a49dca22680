/**
 * The facts that an agent's own journal keeps. They survive any crash. The state of transfers is not among
 * them, because a device that reconnects reports its state again. Types only.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SavedProgress } from "../../shared/train/saved-progress.js";
import type {
  Activation,
  BegunJob,
  KeptReceipt,
  LineState,
  Metric,
  OutboxEntry,
  OutboxState,
  SampleRange,
  SeenHead,
} from "./outbox-state.js";

interface At {
  /** Device clock, ms since 1970. */
  readonly atMs: number;
}

export type AgentFact =
  /**
   * A model was fine-tuned and saved; record, objects and changed tensors are in the store. `samples`: those
   * needed to repeat its training.
   */
  | (At & {
      readonly type: "saved";
      readonly versionId: Hash;
      readonly line: string;
      readonly sequence: number;
      readonly name: string;
      readonly bases: readonly Hash[];
      readonly tensorBytes: number;
      /** Bytes of data, recipe, checkpoints and optimizer state; absent where there are none. */
      readonly usesBytes?: number;
      readonly metric: Metric | null;
      readonly samples: SampleRange | null;
      /** The training that made it; absent where none did. */
      readonly invocation?: number;
    })
  /** A version from the server was fetched, and its root verified. */
  | (At & {
      readonly type: "adopted";
      readonly versionId: Hash;
      readonly line: string;
      readonly name: string;
      readonly version: number;
      readonly tensorBytes: number;
      /** The line runs it only after an offer that is not staged. */
      readonly staged?: true;
      /** The input pipeline (object of kind "pipeline"); absent: it came without one. */
      readonly pipeline?: Hash;
    })
  /** A signed receipt came and was verified. */
  | (At & {
      readonly type: "receipt";
      readonly kind: "recorded" | "stored" | "released";
      readonly versionId: Hash;
      readonly position: number;
      readonly backedUpTo: number;
      readonly name: string;
      readonly version: number;
      /** The server has no tensors of it yet: nothing follows from the receipt but that it need not be repeated. */
      readonly claim?: true;
      /** The server's journal head in the receipt, which continues the newest one seen. */
      readonly head?: SeenHead;
    })
  | (At & {
      readonly type: "refused";
      readonly versionId: Hash;
      readonly code: string;
      readonly message: string;
    })
  | (At & {
      readonly type: "activated";
      readonly versionId: Hash;
      readonly line: string;
      readonly clockErrorMs: number | null;
      readonly session: number;
      /** An assignment, a command or a person chose it; absent: the line switched to its newest by itself. */
      readonly chosen?: true;
    })
  /** The tensors were deleted here; the server holds them. */
  | (At & { readonly type: "forgotten"; readonly versionId: Hash })
  /**
   * A training began. It is counted even when it fails, so that no random stream is used twice for another
   * training. It ends with `saved` or `training-failed` of the same invocation; one that ended with neither was
   * cut short, and begins again.
   */
  | (At & {
      readonly type: "training";
      readonly line: string;
      readonly invocation: number;
      readonly because: string;
      readonly samplesEnd: number;
      /** The training; absent in journals of earlier releases, whose trainings do not begin again. */
      readonly job?: BegunJob;
    })
  /** A training that was cut short goes on, or begins again where it left no state. */
  | (At & {
      readonly type: "training-again";
      readonly line: string;
      readonly invocation: number;
      /** Steps in its saved state at that time; absent without one. */
      readonly iteration?: number;
      /** The progress of its newest pass over samples at that time; absent without one. */
      readonly pass?: SavedProgress["pass"];
    })
  /** The agent was stopped in order while it trained: this try does not count against the training. */
  | (At & { readonly type: "training-paused"; readonly line: string; readonly invocation: number })
  /** A training ended without a model, and does not begin again. */
  | (At & {
      readonly type: "training-failed";
      readonly line: string;
      readonly invocation: number;
      readonly code: string;
      readonly message: string;
    })
  /**
   * The newest journal head of the server, proven to continue the one before. `restores`: leaf hashes of facts
   * `restored` in it that were not known. One without `root`, written by an earlier release, is not used
   * as a head.
   */
  | (At & {
      readonly type: "seen";
      readonly length: number;
      readonly chain: Hash;
      readonly root?: Hash;
      readonly restores?: readonly Hash[];
      /** Public key of the server. */
      readonly server?: string;
    })
  /** The device is enrolled with another server from here on; `restored` to position 0 goes before it. */
  | (At & { readonly type: "server"; readonly publicKey: string })
  /**
   * The server's history is another one than this device has seen; ends with the next `seen`. `unsigned`: a restore
   * explains it that the fleet's owner has not signed.
   */
  | (At & { readonly type: "distrusted"; readonly text: string; readonly unsigned?: true })
  /**
   * The server was restored to an older state: everything it had recorded from `position` on is announced
   * again.
   */
  | (At & { readonly type: "restored"; readonly position: number })
  /** Part of the state that all facts before a compaction of the journal gave. */
  | (At & { readonly type: "compacted"; readonly part: CompactedPart });

export interface CompactedPart {
  /** Members that an earlier release did not write are absent. */
  readonly outbox?: Pick<OutboxState, "backedUpTo"> &
    Partial<Pick<OutboxState, "server" | "knownRestores" | "distrust" | "lost">> & {
      readonly seen?: Partial<SeenHead> | undefined;
    };
  /** Earlier releases staged nothing. */
  readonly line?: Omit<LineState, "versions" | "activations" | "staged"> & Partial<Pick<LineState, "staged">>;
  readonly version?: OutboxEntry;
  /** Earlier releases did not number them. */
  readonly activations?: readonly (Omit<Activation, "number"> & Partial<Pick<Activation, "number">>)[];
  readonly receipts?: readonly KeptReceipt[];
}

/** Indices of a line's samples: `from` and all after it, below `to`. */
export type AgentFactOf<Type extends AgentFact["type"]> = Extract<AgentFact, { readonly type: Type }>;
