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

const stoppedJournalKept: KnownFault = {
  name: "stopped-journal-kept",
  since: "593c6c45",
  text:
    "A server whose journal stops (a failed fsync) while it judges a CONNECT, or carries out an operation, does not end: " +
    "only what ingest does in the background reports it (FleetIngest's onFatal). It refuses every device until it is restarted.",
  isOf: ({ invariant }) => invariant === "stopped journal",
};

const failedStoreKept: KnownFault = {
  name: "failed-store-kept",
  since: "593c6c45",
  text:
    "A server whose object store has failed (a failed fsync) never ends: only JOURNAL_STOPPED is fatal to ingest, not " +
    "STORE_FAILED. It refuses every upload and every CONNECT until it is restarted.",
  isOf: ({ invariant }) => invariant === "failed store",
};

const initialCountedAsSwitched: KnownFault = {
  name: "initial-counted-as-switched",
  since: "593c6c45",
  text:
    "A rollout of the version that a device's enrolment assigned counts the device as switched, and is done, before the " +
    "device has run anything: what an enrolment assigned is never unanswered, and factsOf assigns nothing again.",
  isOf: ({ invariant, vehicle }) =>
    invariant === "done rollouts" && vehicle !== undefined && vehicle.runs === undefined,
};

export const knownFaults: readonly KnownFault[] = [
  stoppedJournalKept,
  failedStoreKept,
  initialCountedAsSwitched,
];
