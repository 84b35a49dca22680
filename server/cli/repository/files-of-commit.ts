/** The files of a commit: those that are staged, and those that it takes over from the version before it. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { StemmaError } from "../../../shared/errors.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import type { PlainContext } from "../plain-command.js";
import { dataMember, memberOfFile, trackedFiles, type Described } from "./current-version.js";
import type { Repository } from "./find-repository.js";
import { hyperParametersIn } from "./hyper-parameters.js";
import { maxAttachedBytes, maxLogBytes } from "./look-at-file.js";
import { attachedKinds, carriedKinds, type StagedKind } from "./sniff-kind.js";
import { pathOfEntry, type StagedEntry, type StagingList } from "./staging-list.js";
import { courseOfLogs, type TrainingCourse } from "./training-logs/measurements-of-logs.js";

interface CommitFile {
  readonly name: string;
  readonly kind: StagedKind;
  readonly path: string;
  readonly bytes: Uint8Array;
}

export interface FilesOfCommit {
  readonly entries: readonly StagedEntry[];
  readonly attachments: readonly { readonly name: string; readonly bytes: Uint8Array }[];
  /** Text of the network; undefined: no file describes it. */
  readonly network: string | undefined;
  /** Hyper-parameters, data, and where the files were. */
  readonly metadata: ModelMetadata;
  readonly course: TrainingCourse;
  /** The hash of all that, of the tensors' files, and of nothing else. */
  readonly content: string;
}

export interface CommitQuestion {
  readonly list: StagingList;
  readonly base: Described | undefined;
  /** Hyper-parameters of the command line. */
  readonly parameters: ModelMetadata;
  readonly call: PlainContext["call"];
}

/** @throws FILE_CHANGED, SIZE_OVER_LIMIT, CONFIG_INVALID, TRAINER_OUTPUT_INVALID, DATASET_UNKNOWN */
export async function filesOfCommit(
  repository: Repository,
  question: CommitQuestion,
): Promise<FilesOfCommit> {
  const { list, parameters } = question;
  const files = [...(await stagedFiles(repository, list)), ...(await carriedFiles(question))];
  const total = files.reduce((sum, { bytes }) => sum + bytes.length, 0);
  if (total > maxAttachedBytes) throw tooMuch(total);
  const configured = files.filter(({ kind }) => kind === "configuration");
  const metadata: ModelMetadata = {
    ...Object.fromEntries(
      configured.flatMap(({ name, bytes }) => Object.entries(hyperParametersIn(name, bytes))),
    ),
    ...parameters,
    ...(await dataOf(question)),
    ...Object.fromEntries(files.map((file) => memberOfFile(file.name, file))),
  };
  const network = files.find(({ kind }) => kind === "network");
  const logs = list.entries.filter(({ kind }) => kind === "log");
  return {
    entries: list.entries,
    attachments: files.map(({ name, bytes }) => ({ name, bytes })),
    network: network && Buffer.from(network.bytes).toString("utf8"),
    metadata,
    course: await courseOfLogs(logs.map((entry) => pathOfEntry(repository, entry))),
    content: contentOf(list, files, metadata),
  };
}

function tooMuch(total: number): StemmaError {
  return new StemmaError(
    "SIZE_OVER_LIMIT",
    `The files of this commit have ${total} bytes together, more than ${maxAttachedBytes}. Add the largest with ` +
      "`--as data`, or forget some: stemma add --forget FILE.",
  );
}

async function stagedFiles(repository: Repository, { entries }: StagingList): Promise<readonly CommitFile[]> {
  const files: CommitFile[] = [];
  for (const entry of entries) {
    if (!attachedKinds.has(entry.kind) || (entry.kind === "log" && entry.byteLength > maxLogBytes)) continue;
    const { kind, path, sha256 } = entry;
    const bytes = await readFile(pathOfEntry(repository, entry));
    if (createHash("sha256").update(bytes).digest("hex") !== sha256)
      throw new StemmaError(
        "FILE_CHANGED",
        `${path} changed meanwhile. Nothing was committed. Add it again.`,
        { path },
      );
    files.push({ name: basename(path), kind, path, bytes });
  }
  return files;
}

async function carriedFiles({ list, base, call }: CommitQuestion): Promise<readonly CommitFile[]> {
  if (base === undefined) return [];
  const names = new Set(list.entries.map(({ path }) => basename(path)));
  const hasNetwork = list.entries.some(({ kind }) => kind === "network");
  const files: CommitFile[] = [];
  for (const { name, kind, path } of trackedFiles(base)) {
    const isReplaced = names.has(name) || (kind === "network" && hasNetwork);
    if (isReplaced || !carriedKinds.has(kind) || list.forgotten.includes(name)) continue;
    const { base64 } = await call("attachment", { model: base.versionId, file: name });
    files.push({ name, kind, path, bytes: Buffer.from(base64, "base64") });
  }
  return files;
}

/** Registered data by their content hash, files of data by their SHA-256. */
async function dataOf({ list, call }: CommitQuestion): Promise<ModelMetadata> {
  const members: Record<string, string> = {};
  for (const { name, hash } of await registeredData(call, list.data))
    members[`${dataMember}${name}`] = hash ?? "its hash was not kept";
  for (const { kind, path, sha256, byteLength } of list.entries)
    if (kind === "data") members[`${dataMember}${basename(path)}`] = `sha256:${sha256} ${byteLength} bytes`;
  return members;
}

interface RegisteredData {
  readonly name: string;
  readonly hash: string | null;
}

/** @throws DATASET_UNKNOWN */
export async function registeredData(
  call: PlainContext["call"],
  names: readonly string[],
): Promise<readonly RegisteredData[]> {
  if (names.length === 0) return [];
  const known = await call("datasets", {});
  return names.map((name) => {
    const found = known.find((each) => each.name === name);
    if (found !== undefined) return found;
    throw new StemmaError(
      "DATASET_UNKNOWN",
      `No data are registered as ${name}. \`stemma data list\` shows them.`,
    );
  });
}

function contentOf({ entries }: StagingList, files: readonly CommitFile[], metadata: ModelMetadata): string {
  const hashOf = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
  const parts = [
    ...entries
      .filter(({ kind }) => kind === "log" || !attachedKinds.has(kind))
      .map(({ kind, iteration = null, sha256 }) => [kind, iteration, sha256]),
    ...files.map(({ name, bytes }) => ["file", name, hashOf(bytes)]),
    ...Object.entries(metadata).map(([name, value]) => ["metadata", name, value]),
  ].map((part) => JSON.stringify(part));
  return hashOf(parts.sort().join("\n"));
}
