/** `stemma device list|show|revoke|assign|train`: the devices of a fleet. */
import { exitStatus } from "../../../../shared/errors.js";
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { formatTime, type Column } from "../../../../shared/cli/output.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { describeKeyValues } from "../../key-values.js";
import { listed, plain, repeated } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

export const evenIfClaimedText =
  "also where the device has models whose parameters only it has; these may be lost";

const deviceColumns: readonly Column<CallOutput<"devices">[number]>[] = [
  { title: "DEVICE", value: (row) => row.device },
  {
    title: "STATE",
    value: (row) => {
      if (row.state !== "enrolled") return row.state;
      return `${row.online ? "online" : "offline"}${row.doubt === undefined ? "" : ", DOUBTS"}`;
    },
  },
  { title: "PROFILE", value: (row) => row.profile },
  { title: "LINES", value: (row) => row.lines.join(", ") },
  {
    title: "RUNS",
    value: (row) =>
      Object.entries(row.runs)
        .map(([line, model]) => `${line} ${model}`)
        .join(", ") || "-",
  },
  { title: "GEN", value: (row) => String(row.generation) },
  { title: "ENROLLED", value: (row) => formatTime(row.enrolledAtMs) },
];
const labelColumn: (typeof deviceColumns)[number] = {
  title: "LABELS",
  value: (row) => describeKeyValues(row.labels ?? {}, "-"),
};

const list = plain("devices", {
  name: "list",
  about: "the fleet's devices and what they run now",
  options: {
    select: "<selection> only those that this means: 'label.region=eu and seen<7d' (docs/selections.md)",
    limit: "<n> at most n of them",
    offset: "<n> skip the first n",
  },
  print: (rows, { select, offset }, { fleet }) =>
    listed(rows, {
      nameOf: (row) => row.device,
      columns: rows.some(({ labels }) => labels !== undefined)
        ? [...deviceColumns, labelColumn]
        : deviceColumns,
      empty:
        (offset ?? 0) > 0
          ? `no device is left after --offset ${offset}`
          : select === undefined
            ? `no devices in the fleet ${fleet}; enrol one with: stemma device enroll NAME --line LINE`
            : `the selection means no device of the fleet ${fleet}; all are in: stemma device list`,
    }),
});

const show = plain("device", {
  name: "show",
  about: "one device: lines, active models, session",
  takes: { device: "" },
  print: async (found) => {
    const { describeDevice } = await import("../../device-text.js");
    return { names: [found.device], text: describeDevice(found).join("\n") };
  },
});

const revoke = plain("revoke", {
  name: "revoke",
  about: "cut a device off: its certificate, token and key are refused from now on; its models are kept",
  takes: { device: "" },
  options: {
    because: { text: "<reason> kept with the fact", default: "revoked by hand" },
    evenIfClaimed: evenIfClaimedText,
    dryRun: "only check that the device exists",
  },
  run: async ({ device, because, evenIfClaimed, dryRun }, { call }) => {
    await call("device", { device });
    if (!dryRun) await call("revoke", { device, because, evenIfClaimed });
    return { device, revoked: !dryRun };
  },
  print: ({ device }, { dryRun }) => ({
    names: [device],
    text: `${dryRun ? "would revoke" : "revoked"} ${device}`,
  }),
});

const assign = plain("assign", {
  name: "assign",
  about: "give a model to a device's line, as initial model or update",
  takes: { device: "", line: "", model: "" },
  options: {
    allowReduced: "the model may be a reduced (lossy) one",
    force: "also a model of another shape than the line has had",
    dryRun: "check, give nothing",
  },
  print: (summary, { device, line, dryRun }) => ({
    names: [nameOf(summary)],
    text: `${dryRun ? "would assign" : "assigned"} ${nameOf(summary)} to ${line} of ${device}`,
  }),
});

const train = plain("trainOnDevice", {
  name: "train",
  about: "ask a connected device to fine-tune a line now",
  takes: { device: "", line: "" },
  options: { set: repeated("<key=value> a parameter of the recipe (repeatable)") },
  input: ({ set }) => ({ parameters: parseAssignments(set) }),
  print: ({ accepted, message }, { device }) => ({
    names: [device],
    text: `${accepted ? "accepted" : "refused"}: ${message}`,
    ...(accepted ? {} : { status: exitStatus.failed }),
  }),
});

export const commands = [list, show, revoke, assign, train];
