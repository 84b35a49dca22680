/**
 * Runs as the whole program of a thread for kernels. Its text is the thread's whole program (kernel-threads.ts), so it
 * imports nothing and refers to nothing outside itself; an engine then needs no further file for its threads.
 */
import type * as WorkerThreads from "node:worker_threads";
import type { ThreadData } from "./kernel-threads.js";

/** Takes parts of the current call until none is left, waits for the next call, until it is stopped. */
export function runKernelThread({ parentPort, workerData }: typeof WorkerThreads): void {
  const { module, memory, control, parameters, slots, spins, index } = workerData as ThreadData;
  const state = new Int32Array(control);
  const numbers = new Float64Array(parameters);
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  const kernels = Object.values(instance.exports) as ((...parameters: number[]) => void)[];

  const runPart = (part: number): void => {
    const kernel = numbers[slots.kernel] ?? 0;
    const perPart = numbers[slots.parametersPerPart] ?? 0;
    const scratchBytes = numbers[slots.scratchBytes] ?? 0;
    const first = slots.parameters + part * perPart;
    const given = [...numbers.subarray(first, first + perPart)];
    if (scratchBytes > 0) given.unshift((numbers[slots.scratch] ?? 0) + index * scratchBytes);
    kernels[kernel]?.(...given);
  };
  const takeParts = (): void => {
    for (;;) {
      const left = Atomics.load(state, slots.left);
      if (left <= 0) return;
      if (Atomics.compareExchange(state, slots.left, left, left - 1) !== left) continue;
      try {
        runPart(left - 1);
      } catch {
        Atomics.store(state, slots.failed, 1);
      }
      Atomics.add(state, slots.done, 1);
      Atomics.notify(state, slots.done);
    }
  };
  parentPort?.postMessage("ready");
  for (;;) {
    const calls = Atomics.load(state, slots.calls);
    if (Atomics.load(state, slots.stopped) !== 0) return;
    takeParts();
    // A training calls kernels in quick succession: waking up from a wait would take longer than many of them.
    for (let spin = 0; spin < spins && Atomics.load(state, slots.calls) === calls; spin++);
    Atomics.wait(state, slots.calls, calls);
  }
}
