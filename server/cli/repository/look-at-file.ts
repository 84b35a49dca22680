/** Looks at a file that is staged: its kind, and that it is well-formed, so that no commit is refused for it. */
import { counted } from "../../../shared/printable.js";
import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { defined } from "../../../shared/defined.js";
import { StemmaError } from "../../../shared/errors.js";
import { openModelFile } from "../../../shared/forms/model-file.js";
import { requireKeptFileName } from "../../../shared/model/kept-file.js";
import { openSafetensors } from "../../../shared/save/open-safetensors.js";
import { hyperParametersIn } from "./hyper-parameters.js";
import { iterationInName, sniffKind, stagedKinds, type StagedKind } from "./sniff-kind.js";
import { courseOfLogs, firstBytes } from "./training-logs/measurements-of-logs.js";
import { isInHome, shownPath, type Repository } from "./find-repository.js";
import { seeFile, seeFiles, type StagedEntry } from "./staging-list.js";

/** Bytes of all files that one version keeps: base64 in a request of at most 64 MiB. */
export const maxAttachedBytes = 40 * 1024 * 1024;

/** Longer logs are read into measurements alone. */
export const maxLogBytes = 8 * 1024 * 1024;

export interface Look {
  readonly entry: StagedEntry;
  /** A few words for the person who added it. */
  readonly about: string;
}

export interface LookOptions {
  readonly kind: StagedKind | undefined;
  readonly iteration: number | undefined;
}

/**
 * @throws FILE_MISSING, FILE_NOT_REGULAR, FILE_CHANGED, NOT_ALLOWED for a file of the home, USAGE where its kind is not
 * known; SAFETENSORS_MALFORMED, CONFIG_INVALID, TRAINER_OUTPUT_INVALID for what is not of its kind
 */
export async function lookAtFile(
  repository: Repository,
  path: string,
  { kind: asked, iteration }: LookOptions,
): Promise<Look> {
  const seen = await seeFile(path);
  if (await isInHome(repository, path))
    throw new StemmaError(
      "NOT_ALLOWED",
      `${path} is in the repository's own folder, which has its keys, so it is not added.`,
      { path },
    );
  const name = basename(path);
  const kind = asked ?? sniffKind(name, await firstBytes(path));
  if (kind === undefined)
    throw new StemmaError(
      "USAGE",
      `It is not known what ${path} is. Say it with --as: ${stagedKinds.join(", ")}.`,
      { path },
    );
  const steps = kind === "checkpoint" ? (iteration ?? iterationInName(name)) : undefined;
  if (kind === "checkpoint" && steps === undefined)
    throw new StemmaError("USAGE", `Name the training steps before the checkpoint ${path}: --iteration N.`);
  const { about, beside } = await check(path, kind, seen.byteLength);
  const entry = {
    ...(beside === undefined
      ? seen
      : await seeFiles([path, ...beside.map((one) => join(dirname(path), one))])),
    kind,
    path: shownPath(repository, path),
    ...defined({ iteration: steps, beside: beside && [...beside] }),
  };
  return { entry, about };
}

interface Checked extends Pick<Look, "about"> {
  /** Names of the files next to it that it consists of too. */
  readonly beside?: readonly string[];
}

async function check(path: string, kind: StagedKind, byteLength: number): Promise<Checked> {
  return ["model", "checkpoint", "optimizer"].includes(kind)
    ? await checkTensors(path)
    : { about: await checkOther(path, kind, byteLength) };
}

async function checkOther(path: string, kind: StagedKind, byteLength: number): Promise<string> {
  switch (kind) {
    case "log":
      return (await checkLog(path)) + (byteLength > maxLogBytes ? "; the file itself is not kept" : "");
    case "network":
      checkSize(path, byteLength);
      return checkNetwork(path, await readFile(path, "utf8"));
    case "configuration": {
      checkSize(path, byteLength);
      const count = Object.keys(hyperParametersIn(basename(path), await readFile(path))).length;
      return count === 0 ? "" : `${count} hyper-parameters`;
    }
    case "data":
      return "named by its SHA-256, not stored (stemma data add stores samples)";
    case "file":
      requireKeptFileName(basename(path));
      return `${byteLength} bytes, kept as they are`;
    default:
      checkSize(path, byteLength);
      return "";
  }
}

async function checkTensors(path: string): Promise<Checked> {
  const { file, notes, beside, close } = await openModelFile(path);
  try {
    const { tensors } = await openSafetensors(file, path);
    const about = [counted(tensors.length, "tensor"), ...notes].join("; ");
    return { about, ...(beside.length === 0 ? {} : { beside }) };
  } finally {
    await close();
  }
}

async function checkLog(path: string): Promise<string> {
  const { measurements, iterations } = await courseOfLogs([path]);
  const [first, last] = [measurements[0], measurements.at(-1)];
  const kept = measurements.length < iterations ? `, of which ${measurements.length} are kept` : "";
  return `${iterations} measurements, iterations ${first?.iteration ?? 0} to ${last?.iteration ?? 0}${kept}`;
}

function checkNetwork(path: string, text: string): string {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value === "object" && value !== null) return "";
  } catch {
    // Said below.
  }
  throw new StemmaError("MODEL_JSON_MALFORMED", `${path} is not the JSON of a network (tfjs model.json).`, {
    path,
  });
}

function checkSize(path: string, byteLength: number): void {
  if (byteLength <= maxAttachedBytes) return;
  throw new StemmaError(
    "SIZE_OVER_LIMIT",
    `${path} has ${byteLength} bytes; the files of a version have at most ${maxAttachedBytes} together. Add it with ` +
      "`--as data`: then it is named by its SHA-256 and not stored.",
    { path },
  );
}
