/** `stemma storage plan|apply`: how a fleet could be stored in less, and storing it so. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { exitStatus, StemmaError } from "../../../shared/errors.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { formatBytes, formatDuration, type Output } from "../../../shared/cli/output.js";
import type { ApplyReport } from "../../archive/plan-application.js";
import {
  archiveEncodings,
  maxPlanBytes,
  readArchivePlan,
  type ArchiveEncoding,
  type ArchivePlan,
  type RecreationSummary,
} from "../../archive/archive-plan.js";
import { planningSchemes, type PlanningScheme } from "../../planner/retrieval.js";
import type { StorageApplied } from "../../api/storage-schemas.js";
import type { OperationInput } from "../../api/server-operations.js";
import { withContext } from "../context.js";

interface PlanChoices {
  readonly budget: string;
  readonly scheme: string;
  readonly layout: string;
  readonly search?: string;
  readonly readRate?: string;
  readonly measure: boolean;
  readonly out?: string;
}
interface ApplyChoices extends PlanChoices {
  readonly plan?: string;
  readonly disk?: string;
  readonly time?: string;
  readonly dryRun: boolean;
}

const aboutPlan = `
Tensors can lie raw, packed, or as the difference from a related one: smaller, but slower to rebuild. The budget says
how much slower a recovery may become: 1.6x lets each version cost 1.6 times what it would with everything stored for
speed (a disk that answers without its cache, one decoder, hashing), "none" asks for the smallest whatever it costs.

  stemma storage plan                        what 1.6x would bring
  stemma storage plan --budget 3x --out p    the same for 3x, kept as a file
  stemma storage apply --plan p              store it so
`;
const aboutApply = `
Runs beside everything else: saves, recoveries and collections go on. No model's name, id or bytes change. Stopped or
killed at any moment it leaves everything whole; the next apply goes on. Superseded copies, and whatever else nothing
refers to any more, are collected on the way. Exit status 5: something was left for the next time.

  stemma storage apply --budget 2x --time 10m
  stemma storage apply --dry-run             what would be written anew
`;

export function addStoragePlanCommands(storage: Command): void {
  planOptions(
    storage
      .command("plan")
      .description(
        "show in how little the fleet could be stored, and what recoveries would cost then; changes nothing",
      ),
  )
    .option("--out <file>", "write the whole plan there, for apply")
    .addHelpText("after", aboutPlan)
    .action(async (choices: PlanChoices, command: Command) =>
      withContext(command, async ({ output, operations, options, signal }) => {
        const plan = await (
          await operations()
        ).planStorage(
          { fleet: options.fleet, ...planOptionsOf(choices) },
          { onProgress: progressOn(output), signal },
        );
        output.endProgress();
        if (choices.out !== undefined)
          await writeDurably(nodeFiles(), resolve(choices.out), Buffer.from(`${JSON.stringify(plan)}\n`));
        output.print({
          data: plan,
          names: plan.plan.vertices.map(({ vertex, kind }) => `${vertex} ${kind}`),
          text: [
            ...describePlan(plan),
            ...candidatesOf(plan),
            ...(choices.out === undefined ? [] : [`written to ${resolve(choices.out)}`]),
          ].join("\n"),
        });
      }),
    );

  planOptions(
    storage.command("apply").description("store the fleet as planned, in the background of everything else"),
  )
    .option("--plan <file>", "a plan made before (storage plan --out); without it one is made now")
    .option("--disk <size>", "stop where copies not yet dropped would take more, such as 2GiB")
    .option("--time <duration>", "stop after this, such as 10m")
    .option("--dry-run", "say what would be written anew, write nothing", false)
    .addHelpText("after", aboutApply)
    .action(async (choices: ApplyChoices, command: Command) =>
      withContext(command, async ({ output, operations, options, signal }) => {
        const plan = choices.plan === undefined ? undefined : await readPlan(resolve(choices.plan));
        const applied = await (
          await operations()
        ).applyStorage(
          {
            fleet: options.fleet,
            ...planOptionsOf(choices),
            dryRun: choices.dryRun,
            ...(plan === undefined ? {} : { plan }),
            ...(choices.disk === undefined ? {} : { diskBytes: parseBytes(choices.disk) }),
            ...(choices.time === undefined ? {} : { timeMs: parseDuration(choices.time) }),
          },
          { onProgress: progressOn(output), signal },
        );
        output.endProgress();
        printApplied(output, applied);
      }),
    );
}

/** Without a terminal a line now and then. */
const progressEveryMs = 2000;
function progressOn(output: Output): (line: string) => void {
  let next = performance.now() + progressEveryMs;
  return (line) => {
    const now = performance.now(),
      isDue = now >= next;
    if (isDue) next = now + progressEveryMs;
    if (isDue || output.isTerminal) output.progress(line, true);
  };
}

function planOptions(command: Command): Command {
  return command
    .option(
      "--budget <ratio>",
      "what a version may cost to rebuild against all stored for speed: 1.6x, 2x, … or none",
      "1.6x",
    )
    .option(
      "--scheme <scheme>",
      `tensors of a version are rebuilt one after the other or at once: ${planningSchemes.join(", ")}`,
      "independent",
    )
    .option(
      "--layout <layout>",
      "packed: smallest; planes: the high-order bytes of every number can be read alone; fixed: so, and float32 matrices with one exponent a channel, of which model eval --progressive needs fewer bytes",
      "packed",
    )
    .option("--search <duration>", "how long better plans are looked for", "10s")
    .option(
      "--measure",
      "measure disk and processor anew, instead of what is remembered of the first time",
      false,
    )
    .option(
      "--read-rate <size>",
      "bytes a second that the disk gives, such as 200MB; measured once and remembered when absent",
    );
}

/** @throws USAGE */
function planOptionsOf({
  budget,
  scheme,
  layout,
  search,
  readRate,
  measure,
}: PlanChoices): Omit<OperationInput<"planStorage">, "fleet"> {
  if (!(planningSchemes as readonly string[]).includes(scheme))
    throw new StemmaError(
      "USAGE",
      `--scheme ${scheme} is not valid. Use one of ${planningSchemes.join(", ")}.`,
    );
  if (!(archiveEncodings as readonly string[]).includes(layout))
    throw new StemmaError(
      "USAGE",
      `--layout ${layout} is not valid. Use one of ${archiveEncodings.join(", ")}.`,
    );
  return {
    ratio: parseRatio(budget),
    ...(measure ? { measure } : {}),
    scheme: scheme as PlanningScheme,
    layout: layout as ArchiveEncoding,
    ...(search === undefined ? {} : { timeLimitMs: parseDuration(search) }),
    ...(readRate === undefined ? {} : { readBytesPerSecond: parseBytes(readRate) }),
  };
}

/** @throws USAGE */
export function parseRatio(text: string): number | null {
  if (text === "none") return null;
  const ratio = Number(/^(\d+(?:\.\d+)?)x?$/.exec(text)?.[1] ?? Number.NaN);
  if (!(ratio >= 1 && ratio <= 1e6))
    throw new StemmaError("USAGE", `--budget ${text} is not a ratio. Write it as 1.6x (1 or more), or none.`);
  return ratio;
}

const byteUnits: Readonly<Record<string, number>> = {
  "": 1,
  B: 1,
  kB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};
/** "2GiB", "500MB". @throws USAGE */
export function parseBytes(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text) ?? [],
    bytes = Math.round(Number(number) * (byteUnits[unit ?? "?"] ?? Number.NaN));
  if (!(bytes >= 1) || !Number.isSafeInteger(bytes))
    throw new StemmaError("USAGE", `"${text}" is not a size. Write it as 500MB or 2GiB.`);
  return bytes;
}

const timeUnits: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 };
/** "10m", "30s" in milliseconds. @throws USAGE */
export function parseDuration(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([a-z]+)$/.exec(text) ?? [],
    ms = Math.round(Number(number) * (timeUnits[unit ?? "?"] ?? Number.NaN));
  if (!(ms >= 1) || !Number.isSafeInteger(ms))
    throw new StemmaError("USAGE", `"${text}" is not a duration. Write it as 30s, 10m or 2h.`);
  return ms;
}

async function readPlan(path: string): Promise<ArchivePlan> {
  const found = await nodeFiles().stat(path);
  if (found?.kind !== "file")
    throw new StemmaError(
      "NOT_FOUND",
      `There is no plan at ${path}. Make one with \`stemma storage plan --out ${path}\`.`,
    );
  if (found.size > maxPlanBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${path} has ${found.size} bytes; no plan has more than ${maxPlanBytes}.`,
    );
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, "utf8"));
  } catch (cause) {
    throw new StemmaError(
      "PLAN_INVALID",
      `${path} is not a storage plan: it is not JSON. Make one with \`stemma storage plan --out FILE\`.`,
      { cause },
    );
  }
  return readArchivePlan(value);
}

function microseconds(us: number): string {
  return formatDuration(us / 1000);
}
function percent(part: number, whole: number): string {
  return whole === 0 ? "100 %" : `${((100 * part) / whole).toFixed(1)} %`;
}
function shown({ meanUs, largestUs }: RecreationSummary, least: RecreationSummary): string {
  return `${microseconds(meanUs)} a version, ${microseconds(largestUs)} at most (${(least.meanUs === 0 ? 1 : meanUs / least.meanUs).toFixed(2)}x)`;
}

function describePlan({
  fleet,
  ratio,
  scheme,
  layout,
  summary,
  plan,
}: Omit<ArchivePlan, "plan" | "members"> & { readonly plan?: ArchivePlan["plan"] }): readonly string[] {
  const { materialised, now, planned } = summary;
  return [
    `fleet ${fleet}: ${summary.versions} versions, ${summary.tensors} tensors, ${formatBytes(summary.tensorBytes)}; budget ${ratio === null ? "none" : `${ratio}x`}, ${scheme}, ${layout}`,
    ...(summary.unreadable === 0
      ? []
      : [`${summary.unreadable} tensors cannot be read now and stay as they are; see: stemma storage check`]),
    `stored    ${formatBytes(summary.bytesNow)} now, ${formatBytes(summary.bytesPlanned)} as planned (${percent(summary.bytesPlanned, summary.bytesNow)})${plan === undefined ? "" : `; without a budget at least ${formatBytes(plan.leastStorageCost)}`}`,
    ...summary.kinds.map(
      ({ kind, tensors, storedBytes }) =>
        `  ${kindWords[kind] ?? kind}: ${tensors} tensors, ${formatBytes(storedBytes)}`,
    ),
    `rebuild   for speed ${shown(materialised, materialised)}`,
    ...(now === null ? [] : [`          now       ${shown(now, materialised)}`]),
    `          planned   ${shown(planned, materialised)}`,
    `to write  ${summary.rewrittenTensors} tensors, ${formatBytes(summary.rewrittenBytes)}; about ${formatBytes(summary.diskNeeded)} of free disk meanwhile`,
  ];
}

const kindWords: Readonly<Record<string, string>> = {
  current: "as now",
  raw: "raw",
  packed: "packed",
  planes: "in byte planes",
  fixed: "in fixed planes",
  delta: "as differences",
  "delta-planes": "as differences in byte planes",
};

function candidatesOf({ plan }: ArchivePlan): readonly string[] {
  const reached = plan.candidates
    .map(
      ({ algorithm, storageCost, isWithinBudgets }) =>
        `${algorithm} ${formatBytes(storageCost)}${isWithinBudgets ? "" : " (over budget)"}`,
    )
    .join(", ");
  return [
    `found by  ${plan.algorithm === "current" ? "few changes to what lies there" : plan.algorithm}${plan.isRefined ? ", improved" : ""}${plan.isCutShort ? ", the search was cut short" : ""}; ${reached}`,
  ];
}

const stopWords: Readonly<Record<NonNullable<ApplyReport["stopped"]>, string>> = {
  time: "its time was over",
  disk: "the disk it may use was used",
  interrupted: "it was interrupted",
};

function printApplied(output: Output, { planned, report }: StorageApplied): void {
  const { rewritten, left, stale, failed, already, notSmaller, unplanned } = report;
  if (failed.length > 0) process.exitCode = exitStatus.verification;
  else if (!report.dryRun && left > 0) process.exitCode = exitStatus.partly;
  const todo = report.dryRun
    ? `would write ${left} tensors anew`
    : `${rewritten} tensors written anew${left === 0 ? "" : `, ${left} left for the next time${report.stopped === null ? "" : ` (${stopWords[report.stopped]})`}`}`;
  const reached = `stored    ${formatBytes(report.bytesBefore)} before, ${formatBytes(report.bytesReached)} now (${percent(report.bytesReached, report.bytesBefore)}); predicted ${formatBytes(report.bytesPredicted)}`;
  output.print({
    data: { planned, report },
    names: [report.fleet],
    text: [
      ...(report.dryRun ? describePlan(planned) : []),
      `${todo}${already === 0 ? "" : `, ${already} lay so already`}${notSmaller === 0 ? "" : `, ${notSmaller} kept because that gained nothing`}`,
      ...(report.dryRun
        ? []
        : [
            reached,
            `wrote     ${formatBytes(report.writtenBytes)} in ${report.packs} packs, freed ${formatBytes(report.freedBytes)}, in ${formatDuration(report.durationMs)}`,
          ]),
      ...(stale.length === 0
        ? []
        : [`${stale.length} tensors no longer fit the plan and stay as they are (PLAN_STALE)`]),
      ...(unplanned === 0 ? [] : [`${unplanned} tensors came after the plan and stay as they are`]),
      ...failed.map(({ tensor, code, message }) => `${tensor.slice(0, 16)}: ${message} [${code}]`),
    ].join("\n"),
  });
}
