/** `stemma device list|show|enroll|revoke|assign|train`: the devices of a fleet. */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { Files } from "../../../shared/ports.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { withContext } from "../context.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatTime } from "../../../shared/cli/output.js";
import { refuseReduced } from "../../evaluation/reduced-models.js";
import { nameOf } from "../version-text.js";

/** Profiles that come with Stemma; a device may have others. */
const profiles = new URL("../../../firmware-profiles/", import.meta.url);
async function knownProfiles(files: Files): Promise<readonly string[]> {
  return (await files.list(fileURLToPath(profiles)))
    .filter((name) => name.endsWith(".json") && name !== "schema.json")
    .map((name) => name.slice(0, -".json".length));
}

interface EnrolChoices {
  readonly line: string[];
  readonly profile: string;
  readonly initial: string[];
  readonly file?: string;
  readonly allowReduced: boolean;
  readonly dryRun: boolean;
}

/** What commander passes to the action of `device assign`. */
type AssignArguments = [
  name: string,
  line: string,
  model: string,
  choices: { readonly allowReduced: boolean; readonly dryRun: boolean },
  command: Command,
];

export function addDeviceCommands(program: Command): void {
  const device = program.command("device").description("enrol devices and see what they run");

  device
    .command("list")
    .description("the fleet's devices and what they run now")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows = await (await operations()).devices({ fleet: options.fleet });
        output.print({
          data: rows,
          names: rows.map((row) => row.device),
          table: {
            rows,
            columns: [
              { title: "DEVICE", value: (row) => row.device },
              {
                title: "STATE",
                value: (row) => (row.state === "enrolled" ? (row.online ? "online" : "offline") : row.state),
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
              { title: "ENROLLED", value: (row) => formatTime(row.enrolledAtMs) },
            ],
            empty: `no devices in the fleet ${options.fleet}; enrol one with: stemma device enroll NAME --line LINE`,
          },
        });
      }),
    );

  device
    .command("show")
    .argument("<device>")
    .description("one device: lines, active models, session")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const found = await (await operations()).device({ fleet: options.fleet, device: name });
        const active = Object.entries(found.active).map(
          ([line, run]) =>
            `  ${line}: ${run.versionId} since ${formatTime(run.deviceAtMs)}${run.deviceClockErrorMs === null ? " (device clock error unknown)" : ` ± ${run.deviceClockErrorMs} ms`}, server clock ${formatTime(run.serverAtMs)}`,
        );
        output.print({
          data: found,
          names: [found.device],
          text: [
            `device ${found.device}: ${found.state}, ${found.online ? "online" : "offline"}, profile ${found.profile}, session ${found.session}, ${found.versions} versions`,
            `lines: ${found.lines.join(", ")}`,
            "active:",
            ...(active.length > 0 ? active : ["  nothing reported"]),
          ].join("\n"),
        });
      }),
    );

  device
    .command("enroll")
    .argument("<device>", "name: letters, digits, - and _")
    .option("--line <line>", "a line of models on this device (repeatable)", appendValue, [])
    .option("--profile <profile>", "device class (firmware-profiles/*.json)", "generic")
    .option("--initial <line=model>", "model that the line starts from (repeatable)", appendValue, [])
    .option("--file <path>", "write the enrolment file here (default DEVICE.enrolment.json)")
    .option("--allow-reduced", "initial models may be reduced (lossy) ones", false)
    .option("--dry-run", "check, enrol nothing", false)
    .description("give a device its key, its token and the server's key, as one secret file")
    .action(async (name: string, choices: EnrolChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const initial = Object.fromEntries(
          Object.entries(parseAssignments(choices.initial)).map(([line, model]) => [line, String(model)]),
        );
        const lines = [...new Set([...choices.line, ...Object.keys(initial)])];
        if (lines.length === 0)
          throw new StemmaError(
            "USAGE",
            "A device needs at least one line of models. Name it: --line pack-soh.",
          );
        const path = resolve(choices.file ?? `${name}.enrolment.json`);
        const files = nodeFiles();
        if (!choices.dryRun && (await files.stat(path)) !== undefined)
          throw new StemmaError(
            "USAGE",
            `${path} exists already and may hold the only copy of a device's key. Name another file with --file.`,
          );
        const enrolment = await (
          await operations()
        ).enroll({
          fleet: options.fleet,
          device: name,
          lines,
          profile: choices.profile,
          initial,
          allowReduced: choices.allowReduced,
          dryRun: choices.dryRun,
        });
        if (choices.dryRun) {
          output.print({
            data: { device: name, lines, profile: choices.profile, initial },
            names: [name],
            text: `would enrol ${name} with the lines ${lines.join(", ")}`,
          });
          return;
        }
        const known = await knownProfiles(files);
        if (!known.includes(choices.profile))
          output.info(
            `stemma: note: there is no profile "${choices.profile}" here (${known.join(", ")}); the agent of ${name} must find one of that name or path on its device`,
          );
        // nodeFiles creates files that only their owner may read.
        await writeDurably(files, path, new TextEncoder().encode(`${JSON.stringify(enrolment, null, 2)}\n`));
        output.print({
          data: { device: name, lines, profile: choices.profile, file: path },
          names: [name],
          text: `${name} is enrolled; its secrets are in ${path} (readable by you alone). Start it with: stemma agent run --enrolment ${path}`,
        });
      }),
    );

  device
    .command("revoke")
    .argument("<device>")
    .option("--because <reason>", "kept with the fact", "revoked by hand")
    .option("--dry-run", "only check that the device exists", false)
    .description("cut a device off: its token and key open nothing any more; its models stay")
    .action(async (name: string, choices: { because: string; dryRun: boolean }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const opened = await operations();
        await opened.device({ fleet: options.fleet, device: name });
        if (!choices.dryRun)
          await opened.revoke({ fleet: options.fleet, device: name, because: choices.because });
        output.print({
          data: { device: name, revoked: !choices.dryRun },
          names: [name],
          text: `${choices.dryRun ? "would revoke" : "revoked"} ${name}`,
        });
      }),
    );

  device
    .command("assign")
    .argument("<device>")
    .argument("<line>")
    .argument("<model>")
    .option("--allow-reduced", "the model may be a reduced (lossy) one", false)
    .option("--dry-run", "only check that both exist", false)
    .description("give a model to a device's line, as initial model or update")
    .action(async (...[name, line, model, choices, command]: AssignArguments) =>
      withContext(command, async ({ output, operations, options }) => {
        const opened = await operations();
        if (choices.dryRun) await opened.device({ fleet: options.fleet, device: name });
        const summary = choices.dryRun
          ? await opened.model({ fleet: options.fleet, model })
          : await opened.assign({
              fleet: options.fleet,
              device: name,
              line,
              model,
              allowReduced: choices.allowReduced,
            });
        refuseReduced(summary, choices.allowReduced);
        output.print({
          data: summary,
          names: [nameOf(summary)],
          text: `${choices.dryRun ? "would assign" : "assigned"} ${nameOf(summary)} to ${line} of ${name}`,
        });
      }),
    );

  device
    .command("train")
    .argument("<device>")
    .argument("<line>")
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
    .description("ask a connected device to fine-tune a line now")
    .action(async (name: string, line: string, choices: { set: string[] }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const answer = await (
          await operations()
        ).trainOnDevice({
          fleet: options.fleet,
          device: name,
          line,
          parameters: parseAssignments(choices.set),
        });
        if (!answer.accepted) process.exitCode = 1;
        output.print({
          data: answer,
          names: [name],
          text: `${answer.accepted ? "accepted" : "refused"}: ${answer.message}`,
        });
      }),
    );
}
