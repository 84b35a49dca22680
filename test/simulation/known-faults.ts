/**
 * Faults of the product that simulations find and that are not mended yet: a run that meets one says so and goes on.
 * Whoever mends one removes it here, and turns the test that asserts that it is found.
 */
import type { Violation } from "./invariants.js";
import type { World } from "./world.js";

export interface KnownFault {
  readonly name: string;
  readonly since: string;
  readonly text: string;
  isOf(violation: Violation, world: World): boolean;
}

export const knownFaults: readonly KnownFault[] = [];
