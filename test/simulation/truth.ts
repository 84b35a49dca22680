/**
 * What really happened, noted by the simulation itself: which tensors each version has, what devices saved, which
 * receipts they verified, and what their lines ran. The invariants compare it with what server and devices state.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Leaf, LeafTable } from "../../shared/model/model.js";

export type Receipt = "recorded" | "stored" | "released";
const receiptOrder: readonly Receipt[] = ["recorded", "stored", "released"];

export interface MadeVersion {
  readonly bases: readonly Hash[];
  /** The device that made it, and by which of its enrolments; undefined: the server did. */
  readonly by: { readonly device: string; readonly generation: number } | undefined;
}

/** A switch of a line, as its link showed it. */
export interface Run {
  readonly atMs: number;
  readonly versionId: Hash;
}

export class Truth {
  /** Whose making was acknowledged to who made them. */
  readonly versions = new Map<Hash, MadeVersion>();
  /** The tensors of every model that was ever begun to be saved, by the root of its tree. */
  readonly #roots = new Map<Hash, readonly Hash[]>();
  /** The newest receipt that a device verified, by version. */
  readonly receipts = new Map<Hash, Receipt>();
  /** By device and line. */
  readonly #runs = new Map<string, Run[]>();

  root(root: Hash, leaves: LeafTable | readonly Leaf[]): void {
    this.#roots.set(
      root,
      Array.from(leaves, ({ tensor }) => tensor),
    );
  }
  /** Ids of the tensors, in the order of the tree; undefined: nobody made a model of this root. */
  tensorsOf(root: Hash): readonly Hash[] | undefined {
    return this.#roots.get(root);
  }

  made(versionId: Hash, bases: readonly Hash[], by?: MadeVersion["by"]): void {
    this.versions.set(versionId, { bases, by });
  }

  receipt(versionId: Hash, kind: Receipt): void {
    const before = this.receipts.get(versionId);
    if (before === undefined || receiptOrder.indexOf(kind) > receiptOrder.indexOf(before))
      this.receipts.set(versionId, kind);
  }

  ran(device: string, run: Run): void {
    const runs = this.#runs.get(device) ?? [];
    this.#runs.set(device, runs);
    if (runs.at(-1)?.versionId !== run.versionId) runs.push(run);
  }
  runsOf(device: string): readonly Run[] {
    return this.#runs.get(device) ?? [];
  }

  /** Whether a version is this one, or was made from it. */
  isFrom(versionId: Hash, ancestor: Hash): boolean {
    const seen = new Set([versionId]);
    for (const id of seen) {
      if (id === ancestor) return true;
      for (const base of this.versions.get(id)?.bases ?? []) seen.add(base);
    }
    return false;
  }
}
