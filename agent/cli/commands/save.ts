/** `stemma agent save`: a model that another program trained becomes the next version of a line. */
import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Option, type Command } from "commander";
import { openLog } from "../../../shared/adapters/log.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatBytes, Output } from "../../../shared/cli/output.js";
import { counted } from "../../../shared/printable.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { regularFiles } from "../../../shared/files/regular-files.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { readRunFile, type RunFile } from "../../home/agent-home.js";
import type { SavedFile, SaveFileRequest } from "../../saving/save-file.js";
import { addTakeOver, callRunningAgent, commonOptionsOf } from "../common-options.js";

/** Hashing and writing take a while on a small device. */
const saveTimeoutMs = 3600_000;
/** An agent that is starting or stopping holds its home and does not answer yet, or no longer. */
const startingPatience = { tries: 40, pauseMs: 250 };

interface SaveChoices {
  readonly base?: string;
  readonly metrics: readonly string[];
  readonly attach: readonly string[];
  readonly again: boolean;
  readonly as?: "file";
  readonly check?: string;
  readonly tolerance?: string;
  readonly enrolment?: string;
  readonly config?: string;
  readonly profile?: string;
  readonly takeOver: boolean;
}

export function addSave(program: Command): void {
  addTakeOver(program.command("save"))
    .argument("<line>")
    .argument(
      "<file>",
      "a file with the tensors of the line's model (safetensors, TensorFlow.js or PyTorch), or what the line " +
        "delivers; it is read in place",
    )
    .description(
      "save a model that another program trained as the next version of a line, whether or not the agent runs",
    )
    .option(
      "--base <version>",
      "the version it was trained from, by name or id (default: the one that the line runs)",
    )
    .option(
      "--metrics <file|key=value>",
      "what is known about it: a JSON file, or key=value (repeatable)",
      appendValue,
      [],
    )
    .option("--attach <file>", "a file kept with this version (repeatable)", appendValue, [])
    .option("--again", "save it also where the line has the same model already", false)
    .addOption(
      new Option(
        "--as <kind>",
        "file: the line's first model is the file itself, whatever is in it; later ones go on so",
      ).choices(["file"]),
    )
    .option(
      "--check <file>",
      "inputs, and the outputs that the tool gave for them (.npz or safetensors): the engine has to give the same",
    )
    .option("--tolerance <number>", "with --check, the largest difference (default: 1e-5)")
    .option("--enrolment <file>", "where no agent runs: the enrolment (default: that of its last run)")
    .option("--config <file>", "where no agent runs: its settings (default: those of its last run)")
    .option("--profile <name>", "where no agent runs: its profile (default: that of its last run)")
    .action(async (line: string, file: string, choices: SaveChoices, command: Command) => {
      const { home, output, verbose } = commonOptionsOf(command);
      const request = await requestOf(file, choices);
      const saved = await saveFile(home, line, { request, choices, verbose });
      new Output(output).print({ data: saved, names: [saved.versionId], text: describe(saved) });
    });
}

/** Paths from the root on: the agent runs in another folder. */
async function requestOf(
  file: string,
  { base, metrics, attach, again, as, check, tolerance }: SaveChoices,
): Promise<SaveFileRequest> {
  if (check === undefined && tolerance !== undefined)
    throw new StemmaError("USAGE", "--tolerance goes with --check. Add it, or leave it out.");
  return {
    file: await named(file),
    base,
    ...(metrics.length === 0 ? {} : { metrics: await readMetrics(metrics) }),
    attachments: await Promise.all(attach.map(absolute)),
    again,
    as,
    ...(check === undefined
      ? {}
      : { check: { file: await absolute(check), tolerance: toleranceOf(tolerance) } }),
  };
}

/** @throws USAGE */
function toleranceOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value) && value >= 0) return value;
  throw new StemmaError("USAGE", "--tolerance is a number that is not negative, such as 1e-5.");
}

/** The name stays where it is a link: a shard says by its name that it is one. */
async function named(path: string): Promise<string> {
  await absolute(path);
  return resolve(path);
}

async function absolute(path: string): Promise<string> {
  return await realpath(path).catch((cause: unknown) => {
    throw new StemmaError("FILE_MISSING", `${path} cannot be read. Check the path and its permissions.`, {
      cause,
    });
  });
}

/** Files are merged with the assignments; what is named last counts. */
async function readMetrics(values: readonly string[]): Promise<Record<string, unknown>> {
  const merged: Record<string, unknown> = {};
  for (const value of values)
    Object.assign(
      merged,
      /^[A-Za-z0-9_][A-Za-z0-9_.-]*=/.test(value)
        ? parseAssignments([value], "any")
        : await metricsOfFile(value),
    );
  return merged;
}

async function metricsOfFile(path: string): Promise<object> {
  const text = new TextDecoder().decode(await regularFiles().read(await absolute(path)));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new StemmaError("USAGE", `${path} is not JSON: ${messageOf(cause)}. Correct it there.`, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new StemmaError("USAGE", `${path} is not a JSON object. Write {"name": value, …}.`);
  return value;
}

interface Saving {
  readonly request: SaveFileRequest;
  readonly choices: SaveChoices;
  readonly verbose: boolean;
}

/** Saves through the agent that runs; where none does, this process takes the home itself. */
async function saveFile(home: string, line: string, saving: Saving): Promise<SavedFile> {
  for (let tried = 1; ; tried++) {
    try {
      const request = { do: "save", line, ...saving.request };
      return (await callRunningAgent(home, "control", request, saveTimeoutMs)) as SavedFile;
    } catch (error) {
      if (!isStemmaError(error, "AGENT_UNREACHABLE")) throw error;
    }
    try {
      return await saveAlone(home, line, saving);
    } catch (error) {
      if (!isStemmaError(error, "HOME_LOCKED") || tried === startingPatience.tries) throw error;
      await delay(startingPatience.pauseMs);
    }
  }
}

async function saveAlone(
  home: string,
  line: string,
  { request, choices, verbose }: Saving,
): Promise<SavedFile> {
  const last: Partial<RunFile> = await readRunFile(nodeFiles(), home).catch(() => ({}));
  const { saveWithoutAgent } = await import("../../main.js");
  return await saveWithoutAgent(
    {
      home,
      enrolment: choices.enrolment ?? last.enrolment,
      config: choices.config === undefined ? last.config : resolve(choices.config),
      profile: choices.profile ?? last.profile,
      takeOver: choices.takeOver,
      log: openLog({ form: "plain", level: verbose ? "debug" : "warn" }),
    },
    line,
    request,
  );
}

function describe({ line, versionId, sequence, isNew, ...saved }: SavedFile): string {
  const model = `model ${sequence} (${versionId.slice(0, 12)})`;
  if (!isNew)
    return (
      `${line}: nothing was saved, ` +
      `because ${sequence === 0 ? `its model ${versionId.slice(0, 12)}` : model} is the same; --again ` +
      "saves it once more"
    );
  const extent =
    saved.keptAs !== undefined
      ? `the file ${saved.keptAs} as it is`
      : saved.base === null || saved.changed === saved.tensors
        ? `all ${counted(saved.tensors, "tensor")}`
        : `${saved.changed} of ${counted(saved.tensors, "tensor")} changed`;
  return (
    `${line}: saved as ${model}; ${extent}; ${formatBytes(saved.newTensorBytes)} ` +
    `of ${formatBytes(saved.tensorBytes)} stored${(saved.notes ?? []).map((note) => `\nnote: ${note}`).join("")}`
  );
}
