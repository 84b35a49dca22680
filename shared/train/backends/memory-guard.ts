/**
 * Makes the wasm backend's allocator fail with a typed error, and limits its memory. tfjs takes `_malloc`'s 0
 * for an address: once the 4 GiB are used up, every further tensor would overwrite the first bytes of memory.
 */
import { StemmaError } from "../../errors.js";
import type { WasmModule } from "../kernels/kernel-registry.js";

interface MemoryGuard {
  /** Bytes allocated from JavaScript now: tensors and scratch memory. */
  readonly allocatedBytes: () => number;
  /** Restores the module's own allocator. */
  readonly remove: () => void;
}

/** The end of the addresses up to which kernels may read in whole vectors beyond a tensor. */
const lastAddress = 2 ** 32 - 2 ** 16;

/** Makes `_malloc` throw MEMORY_EXHAUSTED where it would return 0 or pass `limitBytes`. */
export function guardMemory(module: WasmModule, limitBytes = Infinity): MemoryGuard {
  // The first call of each function makes Emscripten replace the property by the bare export, which would
  // remove our replacement.
  module._free(module._malloc(1));
  const { _malloc: allocate, _free: free } = module;
  const sizes = new Map<number, number>();
  let allocated = 0;
  const allocateBelowEnd = (bytes: number): number => {
    const pointer = allocate(bytes);
    if ((pointer >>> 0) + bytes <= lastAddress) return pointer;
    free(pointer);
    return 0;
  };
  module._malloc = (bytes) => {
    if (allocated + bytes > limitBytes)
      throw exhausted(bytes, allocated, `the limit of ${mebibytes(limitBytes)} MiB`);
    const pointer = allocateBelowEnd(bytes);
    // malloc(0) may return 0; the address of an empty tensor does not matter.
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

function exhausted(bytes: number, allocated: number, bound: string): StemmaError {
  return new StemmaError(
    "MEMORY_EXHAUSTED",
    `The training needs ${mebibytes(bytes)} MiB more than the ${mebibytes(allocated)} MiB it has, which exceeds ${bound}. Train with a smaller batch, a smaller model, or a higher memory limit in the profile.`,
    { bytes, allocated },
  );
}

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
