/** What an erasure of a device takes, and what it leaves. Types only. */

/** What an erasure takes, and what it leaves. */
export interface ErasurePlan {
  readonly device: string;
  /** Versions that it made and that are not retired yet. */
  readonly versions: number;
  /** Versions that it made, retired ones too. */
  readonly versionsInAll: number;
  /** Models that it reported without their parameters. */
  readonly claims: number;
  /** Objects of its versions that nothing else needs, and the bytes that they take. */
  readonly objects: number;
  readonly bytes: number;
  /** Tensors of its versions that versions of others have too: they stay, as theirs. */
  readonly sharedTensors: number;
  readonly sharedBytes: number;
  /** Tensors of others that are coded against its own: they are stored anew, raw. */
  readonly recodedTensors: number;
  readonly recodedBytes: number;
  /** Versions of others that were trained from its versions; they keep their ids as parents. */
  readonly descendants: number;
  /** Its objects that running transfers of others use: they go with a later collection. */
  readonly leased: number;
  /** Backups that were made since its first version, newest last. */
  readonly backups: readonly { readonly location: string; readonly atMs: number }[];
  /** Damaged packs that were set aside in packs/damaged: nobody knows what they have. */
  readonly setAside: number;
}

export interface Erased extends ErasurePlan {
  /** Bytes that the collection freed, of everything that nothing needs. */
  readonly freedBytes: number;
  /** Objects of its versions that are still stored and that no version of others needs. */
  readonly left: number;
}
