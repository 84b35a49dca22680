/**
 * Lets JavaScript's heap grow less until the garbage collector looks at all of it. So it finds the buffers
 * that nothing refers to any more: V8 lets it grow up to fourfold, and buffers by 64 MB beyond that. For a
 * process that runs for a year beside others. (docs/simulate.md, "A thousand devices")
 */
import { setFlagsFromString } from "node:v8";

/** V8's flag; 0, its default, lets V8 choose. */
export const heapGrowthFlag = "--heap-growing-percent";
const percent = 25;

export function limitHeapGrowth(): void {
  setFlagsFromString(`${heapGrowthFlag}=${percent}`);
}
