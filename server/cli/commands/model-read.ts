/** `stemma model list|show|log|diff|recover|export|verify`: everything that only reads. */
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus, isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { Measurement } from "../../../shared/train/training.js";
import type { EnvironmentPolicy } from "../../../shared/model/environment.js";
import type { RecoveryReport } from "../../api/version-schemas.js";
import type { ModelDiff, VersionSummary } from "../../repository/fleet-repository.js";
import { describeHold } from "../../repository/state/hold.js";
import { withContext, type CommandContext } from "../context.js";
import {
  formatBytes,
  formatDuration,
  formatTime,
  parseTime,
  type Column,
} from "../../../shared/cli/output.js";
import { refuseExisting, writeStreamDurably } from "../stream-file.js";

export const versionColumns: readonly Column<VersionSummary>[] = [
  { title: "MODEL", value: (row) => `${row.name}:${row.version}` },
  { title: "ID", value: (row) => row.versionId.slice(0, 12) },
  { title: "DEVICE", value: (row) => row.record.device || "-" },
  { title: "LINE", value: (row) => row.record.line || "-" },
  {
    title: "APPROACH",
    value: (row) =>
      row.record.scheme === undefined ? row.record.approach : `${row.record.approach}, ${row.record.scheme}`,
  },
  { title: "SIZE", value: (row) => formatBytes(row.tensorBytes), align: "right" },
  { title: "NEW", value: (row) => formatBytes(row.ownBytes), align: "right" },
  { title: "STATE", value: (row) => stateOf(row) },
  { title: "SAVED", value: (row) => formatTime(row.record.savedAtMs) },
];

const environmentPolicies: readonly EnvironmentPolicy[] = [
  "ignore",
  "report",
  "refuse-different",
  "refuse-any",
];

export function addModelReadCommands(model: Command): void {
  model
    .command("list")
    .description("list models, newest versions last")
    .option("--name <name>", "only versions of this name")
    .option("--device <device>", "only those of this device")
    .option("--line <line>", "only those of this line")
    .option("--all", "retired ones too", false)
    .action(
      async (filter: { name?: string; device?: string; line?: string; all: boolean }, command: Command) =>
        withContext(command, async ({ output, operations, options }) => {
          const rows = await (await operations()).models({ fleet: options.fleet, ...filter });
          output.print({
            data: rows,
            names: rows.map(nameOf),
            table: {
              rows,
              columns: versionColumns,
              empty: `no models in the fleet ${options.fleet}; import one with: stemma model import FILE.safetensors --name NAME`,
            },
          });
        }),
    );

  model
    .command("show")
    .argument("<model>", "name, name:version, name:tag or id")
    .description("describe one model: layers, sizes, lineage, measurements, environment")
    .action(async (reference: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const description = await (await operations()).model({ fleet: options.fleet, model: reference });
        const { record } = description;
        const facts: readonly (readonly [string, string])[] = [
          ["model", nameOf(description)],
          ["id", description.versionId],
          ["content", record.contentId],
          ["root", record.root],
          ["kind", record.kind],
          ...(record.scheme === undefined
            ? []
            : [
                ["scheme", `${record.scheme}: reduced, its numbers are not those that were trained`] as const,
              ]),
          ["fleet / device / line", `${record.fleet} / ${record.device || "-"} / ${record.line || "-"}`],
          ["state", stateOf(description)],
          ...(description.hold === undefined ? [] : [["held", describeHold(description.hold)] as const]),
          ...(description.retired === undefined
            ? []
            : [
                [
                  "retired",
                  `${formatTime(description.retired.atMs)}: ${description.retired.because}`,
                ] as const,
              ]),
          [
            record.scheme === undefined ? "trained from" : "reduced from",
            description.bases.map(nameOf).join(", ") || "-",
          ],
          ["derived", description.derived.map(nameOf).join(", ") || "-"],
          ["saved", formatTime(record.savedAtMs)],
          ["recorded", formatTime(description.recordedAtMs)],
          [
            "size",
            `${formatBytes(description.tensorBytes)}, new in this version ${formatBytes(description.ownBytes)}`,
          ],
          ...(description.measurements === undefined
            ? []
            : [["measured", describeMeasurements(description.measurements)] as const]),
          [
            "environment",
            Object.entries(description.environment)
              .map(([key, value]) => `${key} ${key === "engine" ? value.slice(0, 12) : value}`)
              .join(", ") || "-",
          ],
          ...Object.entries(description.metadata ?? {}).map(([key, value]) => [key, String(value)] as const),
        ];
        const width = Math.max(...facts.map(([key]) => key.length));
        output.print({
          data: description,
          names: [description.versionId],
          table: {
            rows: description.leaves,
            columns: [
              { title: "TENSOR", value: (leaf) => leaf.name },
              { title: "TYPE", value: (leaf) => leaf.dtype },
              { title: "SHAPE", value: (leaf) => `[${leaf.shape.join(", ")}]` },
              { title: "BYTES", value: (leaf) => formatBytes(leaf.bytes), align: "right" },
              { title: "LAST CHANGED IN", value: (leaf) => nameOf(leaf.owner) },
            ],
            empty:
              description.retired === undefined
                ? "no tensors"
                : "retired: its name, parents and times are kept, its tensors are not",
          },
          text: facts.map(([key, value]) => `${key.padEnd(width)}  ${value}`).join("\n"),
        });
      }),
    );

  model
    .command("log")
    .argument("<model>")
    .description("the models this one was trained from, newest first")
    .action(async (reference: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows = await (await operations()).log({ fleet: options.fleet, model: reference });
        output.print({ data: rows, names: rows.map(nameOf), table: { rows, columns: versionColumns } });
      }),
    );

  model
    .command("diff")
    .argument("<a>")
    .argument("<b>")
    .description("which layers differ between two models (no tensor is read)")
    .action(async (a: string, b: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const diff = await (await operations()).diff({ fleet: options.fleet, a, b });
        output.print({
          data: diff,
          names: diff.changes.map((change) => change.name),
          table: {
            rows: diff.changes,
            columns: [
              { title: "CHANGE", value: (row) => row.kind },
              { title: "TENSOR", value: (row) => row.name },
              { title: "WAS", value: (row) => (row.a ? `${row.a.dtype} [${row.a.shape.join(", ")}]` : "-") },
              { title: "IS", value: (row) => (row.b ? `${row.b.dtype} [${row.b.shape.join(", ")}]` : "-") },
              { title: "OTHER NAME", value: (row) => row.otherName },
            ],
            empty: "the two models have the same tensors",
          },
          text: `${describeArchitectures(diff)}; ${diff.comparisons} hashes compared`,
        });
      }),
    );

  for (const verb of ["recover", "export"] as const) {
    model
      .command(verb, { hidden: verb === "export" })
      .argument("[model]")
      .description("recover a model bit for bit, or what a whole fleet ran at a moment")
      .option("--file <path>", "write the model to this safetensors file")
      .option("--force", "write over a file that is there", false)
      .option(
        "--at <time>",
        "with --fleet and no model: what every device ran at this moment (2026-11-21T09:30:00Z)",
      )
      .option("--folder <dir>", "with --at: write every model that ran below this folder")
      .option(
        "--environment <policy>",
        `what a different environment means: ${environmentPolicies.join(", ")}`,
        "report",
      )
      .action(async (reference: string | undefined, choices: RecoverChoices, command: Command) =>
        withContext(command, (context) => recoverCommand(reference, choices, context)),
      );
  }

  model
    .command("verify")
    .argument("<models...>")
    .description("recover models from what is stored and compare them with what was recorded")
    .action(async (references: string[], _: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const door = await operations();
        const rows: { model: string; exact: boolean; report?: RecoveryReport; error?: string }[] = [];
        for (const reference of references) {
          try {
            const report = await door.verify({ fleet: options.fleet, model: reference });
            rows.push({ model: nameOf(report), exact: true, report });
          } catch (error) {
            if (!isStemmaError(error) || error.exitStatus === exitStatus.usage) throw error;
            rows.push({ model: reference, exact: false, error: `${error.message} [${error.code}]` });
            process.exitCode = Math.max(Number(process.exitCode ?? 0), error.exitStatus);
          }
        }
        output.print({
          data: rows,
          names: rows.filter((row) => row.exact).map((row) => row.model),
          table: {
            rows,
            columns: [
              { title: "MODEL", value: (row) => row.model },
              { title: "EXACT", value: (row) => (row.exact ? exactnessOf(row.report) : "NO") },
              {
                title: "TIME",
                value: (row) => (row.report ? formatDuration(totalMs(row.report)) : "-"),
                align: "right",
              },
              { title: "ROOT", value: (row) => row.report?.root.slice(0, 16) },
              { title: "PROBLEM", value: (row) => row.error ?? "" },
            ],
          },
        });
      }),
    );
}

interface RecoverChoices {
  readonly file?: string;
  readonly at?: string;
  readonly folder?: string;
  readonly environment: string;
  readonly force: boolean;
}

async function recoverCommand(
  reference: string | undefined,
  choices: RecoverChoices,
  context: CommandContext,
): Promise<void> {
  if (!(environmentPolicies as readonly string[]).includes(choices.environment))
    throw new StemmaError(
      "USAGE",
      `--environment ${choices.environment} is no policy. Use one of ${environmentPolicies.join(", ")}.`,
    );
  if (reference === undefined) {
    if (choices.at === undefined)
      throw new StemmaError(
        "USAGE",
        "Name a model to recover, or a moment with --fleet F --at TIME to recover what a whole fleet ran.",
      );
    return recoverFleetCommand(choices, context);
  }
  const { output, operations, options } = context;
  const path = choices.file === undefined ? undefined : resolve(choices.file);
  if (path !== undefined) await refuseExisting(path, choices.force);
  const stream = await (
    await operations()
  ).recover({
    fleet: options.fleet,
    model: reference,
    environment: choices.environment as EnvironmentPolicy,
  });
  const report = await writeStreamDurably(stream, path, { overwrite: choices.force }, (done) => {
    output.progress(`recovering ${reference}: ${formatBytes(done)} of ${formatBytes(stream.byteLength)}`);
  });
  output.endProgress();
  if (report.scheme !== undefined)
    output.info(
      `stemma: note: ${nameOf(report)} is a reduced model (${report.scheme}): these are its own numbers, bit for bit, and not those that were trained`,
    );
  output.print({
    data: { ...report, file: path ?? null },
    names: [report.versionId],
    text: describeRecovery(report, path),
  });
}

/**
 * Recovers every model of a fleet as of a moment; unknown stays unknown. Exit 5 when some could not be had.
 */
async function recoverFleetCommand(
  choices: RecoverChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const door = await operations();
  const moments = await door.asOf({ fleet: options.fleet, at: parseTime(choices.at!) });
  const pathOf = ({
    device,
    line,
  }: {
    readonly device: string;
    readonly line: string;
  }): string | undefined =>
    choices.folder === undefined ? undefined : resolve(choices.folder, device, `${line}.safetensors`);
  for (const moment of moments) {
    const path = pathOf(moment);
    if (path !== undefined && moment.versionId !== "unknown") await refuseExisting(path, choices.force);
  }
  const rows: {
    device: string;
    line: string;
    model: string;
    exact: string;
    file: string | null;
    why: string;
  }[] = [];
  for (const moment of moments) {
    if (moment.versionId === "unknown") {
      rows.push({
        device: moment.device,
        line: moment.line,
        model: "unknown",
        exact: "-",
        file: null,
        why: moment.why,
      });
      continue;
    }
    try {
      const stream = await door.recover({ fleet: options.fleet, model: moment.versionId });
      const path = pathOf(moment);
      const report = await writeStreamDurably(stream, path, { overwrite: choices.force }, () => undefined);
      rows.push({
        device: moment.device,
        line: moment.line,
        model: nameOf(report),
        exact: exactnessOf(report),
        file: path ?? null,
        why: moment.why,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      rows.push({
        device: moment.device,
        line: moment.line,
        model: moment.versionId.slice(0, 12),
        exact: "NO",
        file: null,
        why: `${error.message} [${error.code}]`,
      });
      process.exitCode = exitStatus.partly;
    }
  }
  output.print({
    data: rows,
    names: rows.map((row) => row.model),
    table: {
      rows,
      columns: [
        { title: "DEVICE", value: (row) => row.device },
        { title: "LINE", value: (row) => row.line },
        { title: "MODEL", value: (row) => row.model },
        { title: "EXACT", value: (row) => row.exact },
        { title: "FILE", value: (row) => row.file },
        { title: "WHY", value: (row) => row.why },
      ],
      empty: `no device of the fleet ${options.fleet} has reported an active model`,
    },
  });
}

export function nameOf(row: { readonly name: string; readonly version: number }): string {
  return `${row.name}:${row.version}`;
}
function stateOf({ state, tags, held }: VersionSummary): string {
  return [state, ...tags.map((tag) => `#${tag}`), ...(held ? ["held"] : [])].join(" ");
}

function describeMeasurements(measurements: readonly Measurement[]): string {
  const [first, last] = [measurements[0], measurements.at(-1)];
  const course =
    first === undefined || last === undefined
      ? ""
      : `, loss ${first.loss.toPrecision(3)} at iteration ${first.iteration} → ${last.loss.toPrecision(3)} at ${last.iteration}`;
  return `${measurements.length} times${course} (all with -o json)`;
}

function describeArchitectures({ sameArchitecture, opaque }: ModelDiff): string {
  if (opaque) return "no architecture is known of either: tensors are compared by name";
  return sameArchitecture ? "same architecture" : "different architectures";
}

/** What was recovered is what was recorded; of a reduced model that is not what was trained. */
function exactnessOf(report: RecoveryReport | undefined): string {
  return report?.scheme === undefined ? "yes" : `yes, reduced (${report.scheme})`;
}

function totalMs({ steps }: RecoveryReport): number {
  return steps.loadMs + steps.rebuildMs + steps.checkEnvironmentMs + steps.verifyMs;
}

function describeRecovery(report: RecoveryReport, path: string | undefined): string {
  const { steps, environment } = report;
  const lines = [
    `${nameOf(report)} recovered exactly: ${report.tensors} tensors, ${formatBytes(report.byteLength)}, root ${report.root.slice(0, 16)}`,
    `load ${formatDuration(steps.loadMs)}, rebuild ${formatDuration(steps.rebuildMs)}, environment ${formatDuration(steps.checkEnvironmentMs)}, verify ${formatDuration(steps.verifyMs)}`,
    `environment: ${environment.verdict}${environment.differing.length > 0 ? ` (${environment.differing.map((field) => field.field).join(", ")})` : ""}`,
  ];
  if (path !== undefined) lines.push(`written to ${path}`);
  return lines.join("\n");
}
