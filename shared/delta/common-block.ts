/**
 * Extracts the block that two tensors of equal rank have in common, and joins it with the rest again. It
 * starts at their first elements (such as a last layer with more or fewer classes, MH18). Pure.
 */

/** Shape of the common block, or undefined where it holds nothing or the ranks differ. */
export function commonBlock(
  shape: readonly number[],
  other: readonly number[],
): readonly number[] | undefined {
  if (shape.length !== other.length || shape.length === 0) return undefined;
  const block = shape.map((size, i) => Math.min(size, other[i]!));
  return block.includes(0) ? undefined : block;
}

/** Calls `run` with the byte offset and length of every contiguous run of the block, in order. */
function eachRun(
  shape: readonly number[],
  block: readonly number[],
  elementBytes: number,
  run: (offset: number, length: number) => void,
): void {
  const last = shape.length - 1;
  const length = block[last]! * elementBytes;
  const strides: number[] = [];
  for (let i = last, stride = elementBytes; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i]!;
  }
  const index = new Array<number>(Math.max(0, last)).fill(0);
  for (;;) {
    run(
      index.reduce((sum, position, i) => sum + position * strides[i]!, 0),
      length,
    );
    let i = last - 1;
    while (i >= 0 && ++index[i]! === block[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

/** The block's bytes, row-major. */
export function extractBlock(
  bytes: Uint8Array,
  shape: readonly number[],
  block: readonly number[],
  elementBytes: number,
): Uint8Array {
  const out = new Uint8Array(block.reduce((product, size) => product * size, elementBytes));
  let filled = 0;
  eachRun(shape, block, elementBytes, (offset, length) => {
    out.set(bytes.subarray(offset, offset + length), filled);
    filled += length;
  });
  return out;
}

/** Returns everything outside the block, in order. */
export function extractRest(
  bytes: Uint8Array,
  shape: readonly number[],
  block: readonly number[],
  elementBytes: number,
): Uint8Array {
  const out = new Uint8Array(bytes.length - block.reduce((product, size) => product * size, elementBytes));
  let filled = 0;
  let from = 0;
  const copy = (to: number): void => {
    out.set(bytes.subarray(from, to), filled);
    filled += to - from;
  };
  eachRun(shape, block, elementBytes, (offset, length) => {
    copy(offset);
    from = offset + length;
  });
  copy(bytes.length);
  return out;
}

/** A block within a tensor of `shape`. */
export interface BlockPosition {
  readonly shape: readonly number[];
  readonly block: readonly number[];
  readonly elementBytes: number;
}

/** Writes a block and everything outside it to the tensor they came from. */
export function joinBlock(
  target: Uint8Array,
  { shape, block, elementBytes }: BlockPosition,
  blockBytes: Uint8Array,
  restBytes: Uint8Array,
): void {
  let inBlock = 0;
  let inRest = 0;
  let from = 0;
  const fill = (to: number): void => {
    target.set(restBytes.subarray(inRest, inRest + to - from), from);
    inRest += to - from;
  };
  eachRun(shape, block, elementBytes, (offset, length) => {
    fill(offset);
    target.set(blockBytes.subarray(inBlock, inBlock + length), offset);
    inBlock += length;
    from = offset + length;
  });
  fill(target.length);
}
