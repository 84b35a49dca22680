/** Fuel of a WebAssembly module: what takes it, and where a module without any ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fuelExport, meteredWasm } from "../../../../../shared/train/own-recipes/metered-wasm.js";

const section = (id: number, ...content: number[]): number[] => [id, content.length, ...content];

/** A module with a memory, a global, and `f(n)` with this code. */
const moduleOf = (...code: number[]): Uint8Array =>
  Uint8Array.of(
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 1, 0x60, 1, 0x7f, 0),
    ...section(3, 1, 0),
    ...section(5, 1, 0, 1),
    ...section(6, 1, 0x7f, 0, 0x41, 0, 0x0b),
    ...section(7, 1, 1, 0x66, 0, 0),
    ...section(10, 1, code.length + 2, 0, ...code, 0x0b),
  );
const minusOne = [0x20, 0, 0x41, 1, 0x6b, 0x22, 0];
const turns = moduleOf(0x03, 0x40, ...minusOne, 0x0d, 0, 0x0b);
const fill = moduleOf(0x41, 0, 0x41, 7, 0x20, 0, 0xfc, 0x0b, 0);

/** Returns the fuel that is left after f(n), and whether it trapped. */
async function run(module: Uint8Array, units: number, n: number): Promise<readonly [number, boolean]> {
  const { instance } = await WebAssembly.instantiate(meteredWasm(module, units), {});
  const { f, [fuelExport]: fuel } = instance.exports as unknown as {
    f: (n: number) => void;
    [fuelExport]: { value: bigint };
  };
  try {
    f(n);
    return [Number(fuel.value), false];
  } catch (error) {
    assert.match(String(error), /unreachable/);
    return [Number(fuel.value), true];
  }
}

describe("a metered module", () => {
  it("takes a unit for each call and each turn of a loop", async () => {
    assert.deepEqual(await run(turns, 100, 10), [89, false]);
    assert.deepEqual(await run(turns, 2 ** 40, 1), [2 ** 40 - 2, false]);
    assert.deepEqual(await run(turns, 11, 10), [0, false]);
  });
  it("takes a unit for 64 bytes that are filled at once", async () => {
    assert.deepEqual(await run(fill, 100, 640), [89, false]);
    assert.deepEqual(await run(fill, 100, 63), [99, false]);
  });
  it("traps at the same place everywhere once its fuel is used up", async () => {
    assert.deepEqual(await run(turns, 10, 1_000_000), [-1, true]);
    assert.deepEqual(await run(fill, 5, 65_536), [4 - 1024, true]);
  });
  it("is not made of instructions that would not be counted", () => {
    assert.throws(() => meteredWasm(moduleOf(0xfd, 0), 1), /unknown instruction 0xfd/);
    assert.throws(() => meteredWasm(moduleOf(0x12, 0), 1), /unknown instruction 0x12/);
    assert.throws(() => meteredWasm(turns.subarray(0, 40), 1), /unknown/);
  });
});
