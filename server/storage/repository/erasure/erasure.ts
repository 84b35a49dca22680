/** Defines an erasure of devices: what it takes, and what it leaves. Types only. */

/** The effect of an erasure: what it takes, and what it leaves. */
export interface ErasurePlan {
  readonly devices: readonly string[];
  /**
   * The other devices that were erased before, and of which something is still stored that nothing needs: an
   * erasure was cut short, or a transfer had it. The next erasure goes on with them.
   */
  readonly unfinished: readonly string[];
  /** Versions that they made and that are not retired yet. */
  readonly versions: number;
  /** Versions that they made, retired ones too. */
  readonly versionsInAll: number;
  /** Models that they reported without their parameters. */
  readonly claims: number;
  /** Objects of their versions that nothing else needs, and the bytes that they take. */
  readonly objects: number;
  readonly bytes: number;
  /** Tensors of their versions that versions of others have too: they stay, as theirs. */
  readonly sharedTensors: number;
  readonly sharedBytes: number;
  /** Tensors of others that are coded against theirs: they are rewritten raw. */
  readonly recodedTensors: number;
  readonly recodedBytes: number;
  /** Versions of others that were trained from their versions; they keep their ids as parents. */
  readonly descendants: number;
  /** The number of their objects that running transfers of others use: they go with a later collection. */
  readonly leased: number;
  /** Backups that were made since their first version, newest last. */
  readonly backups: readonly { readonly location: string; readonly atMs: number }[];
  /** Damaged packs that were set aside in packs/damaged: nobody knows what they have. */
  readonly setAside: number;
}

export interface Erased extends ErasurePlan {
  /** Bytes that the collection freed, of everything that nothing needs. */
  readonly freedBytes: number;
  /** Objects of their versions, and of unfinished ones, that are still stored and that no version of others needs. */
  readonly left: number;
}
