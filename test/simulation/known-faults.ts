/**
 * Faults of the product that simulations find and that are not mended yet: a run that meets one says so and goes on.
 * Whoever mends one removes it here, and turns the test that asserts that it is found.
 */
import type { Violation } from "./invariants.js";
import { line } from "./vehicle.js";
import type { World } from "./world.js";

export interface KnownFault {
  readonly name: string;
  readonly since: string;
  readonly text: string;
  isOf(violation: Violation, world: World): boolean;
}

export const returnNotReported: KnownFault = {
  name: "return-not-reported",
  since: "593c6c45",
  text:
    "A device that returns within one session to the version that the server knew at its welcome does not report it: " +
    "activationsToReport finds the place of that version by value. Until the next session the server states the version between.",
  isOf: ({ invariant, vehicle }, world) => {
    if (invariant !== "agreement" || vehicle?.runs === undefined) return false;
    const stated = world.stated(vehicle);
    const hasRunStated = world.truth.runsOf(vehicle.name).some(({ versionId }) => versionId === stated);
    return hasRunStated && vehicle.statedInSession.has(vehicle.runs);
  },
};

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

const newestReportPassedOver: KnownFault = {
  name: "newest-report-passed-over",
  since: "593c6c45",
  text:
    "After the server's clock was set back, a device's newer report of a session counts as earlier than the one before " +
    "(isEarlier in device-state.ts compares times within a session), so the server states the version before.",
  isOf: ({ invariant, vehicle }, { server }) =>
    invariant === "agreement" &&
    vehicle?.runs !== undefined &&
    server.running?.repository.ran(vehicle.name, line).at(-1) === vehicle.runs,
};

export const knownFaults: readonly KnownFault[] = [
  returnNotReported,
  stoppedJournalKept,
  failedStoreKept,
  initialCountedAsSwitched,
  newestReportPassedOver,
];
