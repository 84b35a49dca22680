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

const initialCountedAsSwitched: KnownFault = {
  name: "initial-counted-as-switched",
  since: "593c6c45",
  text:
    "A rollout of the version that a device's enrolment assigned counts the device as switched, and is done, before the " +
    "device has run anything: what an enrolment assigned is never unanswered, and factsOf assigns nothing again.",
  isOf: ({ invariant, vehicle }) =>
    invariant === "done rollouts" && vehicle !== undefined && vehicle.runs === undefined,
};

export const knownFaults: readonly KnownFault[] = [initialCountedAsSwitched];
