/** The values that a pickled state dict is made of. */
import type { DType } from "../../tensor/dtype.js";

export type PickleValue =
  | null
  | boolean
  | number
  | string
  /** A list or a tuple. */
  | PickleValue[]
  | Dict
  | Global
  | Storage
  | StridedTensor;

/** A dict or an OrderedDict, in its order. */
export class Dict {
  readonly items = new Map<string | number, PickleValue>();
}

/** A function or class by its name; it is never loaded. */
export class Global {
  constructor(readonly path: string) {}
}

/** Elements of one type in an entry of the archive. */
export class Storage {
  constructor(
    readonly dtype: DType,
    /** Names the entry `data/KEY`. */
    readonly key: string,
    readonly elements: number,
  ) {}
}

/** Elements of a storage: the one at index (i, j, …) is at `offset` + i × strides[0] + j × strides[1] + … */
export class StridedTensor {
  constructor(
    readonly storage: Storage,
    readonly offset: number,
    readonly shape: readonly number[],
    readonly strides: readonly number[],
  ) {}
}
