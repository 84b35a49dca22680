/**
 * Keeps the backend's allocator honest. tfjs takes `_malloc`'s 0 for an address, so that at the end of
 * the 4 GiB every further tensor lies on the first bytes of memory; and it knows no limit below that.
 */
import { StemmaError } from "../../errors.js";
import type { WasmModule } from "../kernels/kernel-registry.js";

export interface MemoryGuard {
  /** Bytes now allocated from JavaScript: tensors and scratch. */
  readonly allocatedBytes: () => number;
  readonly remove: () => void;
}

/** Makes `_malloc` throw MEMORY_EXHAUSTED where it would return 0 or pass `limitBytes`. */
export function guardMemory(module: WasmModule, limitBytes = Infinity): MemoryGuard {
  // the first call of each puts the bare export in its own place, and would throw ours out
  module._free(module._malloc(1));
  const { _malloc: allocate, _free: free } = module;
  const sizes = new Map<number, number>();
  let allocated = 0;
  module._malloc = (bytes) => {
    if (allocated + bytes > limitBytes)
      throw exhausted(bytes, allocated, `the limit of ${mebibytes(limitBytes)} MiB`);
    const pointer = allocate(bytes);
    // an empty tensor may lie anywhere; malloc(0) is allowed to answer 0
    if (pointer === 0 && bytes > 0)
      throw exhausted(bytes, allocated, "what WebAssembly can address or this machine has");
    if (pointer !== 0) {
      sizes.set(pointer >>> 0, bytes);
      allocated += bytes;
    }
    return pointer;
  };
  module._free = (pointer) => {
    const address = pointer >>> 0;
    allocated -= sizes.get(address) ?? 0;
    sizes.delete(address);
    free(pointer);
  };
  return {
    allocatedBytes: () => allocated,
    remove: () => {
      module._malloc = allocate;
      module._free = free;
    },
  };
}

function exhausted(bytes: number, allocated: number, what: string): StemmaError {
  return new StemmaError(
    "MEMORY_EXHAUSTED",
    `${mebibytes(bytes)} MiB more on top of ${mebibytes(allocated)} MiB exceed ${what}: train with a smaller batch, a smaller model, or a higher memory limit in the profile`,
    { bytes, allocated },
  );
}

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
