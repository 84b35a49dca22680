/** Devices: enrolment, invitations, labels, what they are given. */
import { testFleet as fleet } from "../../../../../helpers/test-server.js";
import { car, type Step } from "./step.js";

export const deviceSteps: readonly Step[] = [
  { name: "enroll", ask: (at) => at.enroll({ ...car, lines: ["line"], initial: { line: "tiny" } }) },
  {
    name: "enroll",
    shows: "dry run",
    ask: (at) => at.enroll({ fleet, device: "van", lines: ["line"], dryRun: true }),
  },
  { name: "addresses", ask: (at) => at.addresses() },
  {
    name: "invite",
    shows: "a server without an authority of its own",
    ask: (at) => at.invite({ fleet, device: "bus", lines: ["line"] }),
    fails: "CONFIG_INVALID",
  },
  {
    name: "createBatch",
    shows: "of a server without certificates",
    ask: (at) => at.createBatch({ fleet, batch: "b", count: 1, validMs: 60_000, lines: ["line"] }),
    fails: "CONFIG_INVALID",
  },
  { name: "batches", ask: (at) => at.batches({ fleet }) },
  {
    name: "revokeBatch",
    shows: "one that is not there",
    ask: (at) => at.revokeBatch({ fleet, batch: "b" }),
    fails: "NOT_FOUND",
  },
  {
    name: "acceptDevices",
    shows: "neither devices nor a batch",
    ask: (at) => at.acceptDevices({ fleet }),
    fails: "USAGE",
  },
  { name: "certify", ask: (at) => at.certify({ request: {} }), fails: "ENROLMENT_INVALID" },
  {
    name: "renewDevice",
    shows: "a device with a token",
    ask: (at) => at.renewDevice(car),
    fails: "NOT_ALLOWED",
  },
  { name: "devices", ask: (at) => at.devices({ fleet }) },
  { name: "labelDevices", ask: (at) => at.labelDevices({ ...car, labels: { region: "eu" } }) },
  {
    name: "devices",
    shows: "those of a selection",
    ask: (at) => at.devices({ fleet, select: "label.region=e* and descends=tiny:1" }),
  },
  { name: "device", ask: (at) => at.device(car) },
  { name: "assign", ask: (at) => at.assign({ ...car, line: "line", model: "tiny:2" }) },
  {
    name: "assign",
    shows: "a reduced one",
    ask: (at) => at.assign({ ...car, line: "line", model: "small" }),
    fails: "MODEL_REDUCED",
  },
  {
    name: "rollbackDevice",
    ask: (at) => at.rollbackDevice({ ...car, line: "line" }),
    fails: "MODEL_NOT_FOUND",
  },
  {
    name: "rollbackDevice",
    shows: "a model that it neither made nor ran",
    ask: (at) => at.rollbackDevice({ ...car, line: "line", to: "tiny:1" }),
    fails: "NOT_ALLOWED",
  },
];
