/** `stemma device batch` and `device accept`: one invitation for many devices, and who is let in. */
import { resolve } from "node:path";
import { formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { notThere, quoted } from "../../../../shared/missing-errors.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { forceText } from "../../force-option.js";
import { listed, plain, repeated } from "../../plain-command.js";
import { authorityText, invited } from "./enrol-choices.js";
import { parseLabels } from "./values.js";

const create = plain("createBatch", {
  name: "create",
  about: "make the invitation of a batch",
  takes: { batch: "name of the batch: letters, digits, - and _" },
  options: {
    count: "<n> devices that may enrol, at most",
    valid: { text: "<time> how long: 12h, 30d", default: "30d" },
    line: repeated("<line> a line of models on each device (repeatable)"),
    profile: { text: "<profile> device class (firmware-profiles/*.json)", default: "generic" },
    initial: {
      ...repeated("<line=model> model that the line starts from (repeatable)"),
    },
    label: repeated("<key=value> label of each device (repeatable)"),
    namePattern: "<pattern> names that they may have: * for any characters, ? for one",
    names: { text: "<file> names that they may have, one a line", read: String },
    hold: "each is served only after `stemma device accept`",
    replace: "also in place of an enrolled device that has its name",
    releases: {
      text: "<policy> whether they install only released versions and their own (default: required once releases are published)",
      choices: ["required", "accepted", "off"],
    },
    authority: `<name> ${authorityText}`,
    allowReduced: "initial models may be reduced (lossy) ones",
    force: forceText,
    file: "<path> write the invitation here (default BATCH.batch.json)",
  },
  help: `
The file is the same for all devices of the batch, for example in the image of their disks, and is
good for enrolling alone. On each device, once:
  stemma agent enroll BATCH.batch.json --name van-17

Who has the file can enrol until the batch is used up, ends or is revoked, so keep it short and say
which names there are. With --hold a device is served only after a person accepted it:
  stemma device batch create vans --count 40 --valid 30d --line soh --name-pattern 'van-*' --hold
  stemma device accept van-17
  stemma device accept --batch vans
`,
  run: async ({ batch, ...choices }, { call, operations, output }) => {
    const files = nodeFiles();
    const { evenIfClaimed: _, ...members } = invited({ ...choices, evenIfClaimed: false });
    const lines = [...new Set([...choices.line, ...Object.keys(members.initial)])];
    const path = resolve(choices.file ?? `${batch}.batch.json`);
    if ((await files.stat(path)) !== undefined)
      throw new StemmaError("USAGE", `${path} exists. Name another file, or remove that one.`, { path });
    const { names, namePattern, count, hold, replace, label } = choices;
    const labels = label.length === 0 ? {} : { labels: givenLabels(label) };
    const invitation = await call("createBatch", {
      batch,
      lines,
      ...members,
      count,
      namePattern,
      hold,
      mayReplace: replace,
      ...(names === undefined ? {} : { names: namesIn(await files.read(resolve(names))) }),
      ...labels,
    });
    const { noteAddresses } = await import("../../readdress-enrolment.js");
    await noteAddresses(invitation.terms.mqtt, { output, operations });
    // nodeFiles creates files that only their owner may read.
    await writeDurably(files, path, Buffer.from(`${JSON.stringify(invitation, null, 2)}\n`));
    const { expiresAtMs } = invitation.terms;
    return { batch, lines, count, file: path, expiresAtMs };
  },
  print: ({ batch, count, file, expiresAtMs }) => ({
    names: [batch],
    text: `${counted(count, "device")} may enrol with ${file} until ${formatTime(expiresAtMs)}; on each: stemma agent enroll ${batch}.batch.json --name NAME`,
  }),
});

/** @throws USAGE for one that removes a label: there is none yet */
function givenLabels(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(parseLabels(words)).map(([key, value]) => {
      if (value === null)
        throw new StemmaError("USAGE", `--label ${key}- gives no label. Write ${key}=VALUE.`);
      return [key, value];
    }),
  );
}

/** Reads device names, one a line; empty lines and comments are left out. */
function namesIn(bytes: Uint8Array): string[] {
  return new TextDecoder()
    .decode(bytes)
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
}

const list = plain("batches", {
  name: "list",
  about: "the batches of the fleet, and how many devices enrolled with each",
  print: (batches) =>
    listed(batches, {
      nameOf: (row) => row.batch,
      columns: [
        { title: "BATCH", value: (row) => row.batch },
        { title: "STATE", value: (row) => row.state },
        { title: "ENROLLED", value: (row) => `${row.used} of ${row.count}`, align: "right" },
        { title: "WAITING", value: (row) => row.waiting.length, align: "right" },
        { title: "UNTIL", value: (row) => formatTime(row.expiresAtMs) },
        { title: "NAMES", value: namesText },
        { title: "LINES", value: (row) => row.lines.join(" ") },
      ],
      empty: "no batches; make one with: stemma device batch create",
    }),
});

function namesText({ names, namePattern }: CallOutput<"batches">[number]): string {
  const listed = names === undefined ? [] : [`${names.length} listed`];
  return [...listed, ...(namePattern === undefined ? [] : [namePattern])].join(", ") || "any";
}

const show = plain("batches", {
  name: "show",
  about: "one batch with its devices",
  takes: { batch: "" },
  run: async ({ batch }, { call }) => {
    const found = (await call("batches")).find((one) => one.batch === batch);
    if (found !== undefined) return found;
    throw notThere("NOT_FOUND", `This fleet has no batch ${quoted(batch)}`, "device batch list");
  },
  print: (found, { batch }) => {
    const { revoked, devices, waiting, authority } = found;
    return {
      names: devices,
      text: [
        `batch ${batch}: ${found.state}, ${found.used} of ${found.count} enrolled, until ${formatTime(found.expiresAtMs)}`,
        `lines: ${found.lines.join(", ")}; profile ${found.profile}; names: ${namesText(found)}`,
        ...(authority === undefined ? [] : [`each needs a certificate of the authority ${authority}`]),
        ...(revoked === undefined ? [] : [`revoked ${formatTime(revoked.atMs)}: ${revoked.because}`]),
        `devices: ${devices.join(", ") || "none"}`,
        ...(waiting.length === 0 ? [] : [`wait to be accepted: ${waiting.join(", ")}`]),
      ].join("\n"),
    };
  },
});

const revoke = plain("revokeBatch", {
  name: "revoke",
  about: "let no further device enrol with the file; those that did stay",
  takes: { batch: "" },
  options: { because: "<reason> kept with the fact" },
  print: ({ devices }, { batch }) => ({
    names: [batch],
    text: `${batch} is revoked; ${counted(devices.length, "device that enrolled with it stays", "devices that enrolled with it stay")} (stemma device batch show ${batch}; stemma device revoke DEVICE)`,
  }),
});

const accept = plain("acceptDevices", {
  name: "accept",
  about: "serve devices that enrolled with a batch and wait for that",
  takes: { devices: "" },
  options: {
    batch: "<batch> all that wait of this batch",
    dryRun: "show which, change nothing",
  },
  input: ({ devices = [], batch }) => {
    if (devices.length > 0 || batch !== undefined) return {};
    throw new StemmaError("USAGE", "Name the devices, or their batch with --batch.");
  },
  print: ({ accepted }, { dryRun }) => ({
    names: accepted,
    text:
      accepted.length === 0
        ? "no device waits"
        : `${dryRun ? "would accept" : "accepted"} ${accepted.join(", ")}; an agent connects when it tries next, at the latest after 15 minutes`,
  }),
});

export const commands = [
  {
    name: "batch",
    about: "one invitation for many devices",
    commands: [create, list, show, revoke],
  },
  accept,
];
