/**
 * Opens a model file of any form that is read, as one safetensors file. The form is found by the file's structure.
 * What is not recognised is left to the reader of safetensors, which names other tools' files and the way from them.
 */
import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isStemmaError, StemmaError } from "../errors.js";
import { fileError } from "../files/file-error.js";
import { openRegularFile, type RegularFile } from "../files/regular-file.js";
import { decodeText } from "../model/canonical-json.js";
import { readFully, readSafetensors, type ByteFile } from "../tensor/safetensors-reader.js";
import { isJsonObject, parseStrictJson, type JsonObject } from "../tensor/strict-json.js";
import { assembledFile } from "./assembled-file.js";
import {
  beginsJsonObject,
  formMalformed,
  type Form,
  type FormContent,
  type FormInput,
  type OpenedPart,
} from "./form.js";
import { kerasArchive, kerasHdf5 } from "./keras/keras-files.js";
import { restOfFile } from "./rest-of-file.js";
import { refuseLoneShard } from "./shard-names.js";
import { shardedFiles } from "./sharded-files.js";
import { tfjsModel } from "./tfjs-model.js";
import { torchFile } from "./torch/torch-file.js";

/** Every form besides safetensors itself. Another one is a line here. */
const forms: readonly Form[] = [shardedFiles, tfjsModel, kerasArchive, kerasHdf5, torchFile];

export interface ModelFile extends OpenedPart {
  /** True where `file` is the named file itself, and not assembled from it. */
  readonly isPlain: boolean;
  /** Text of a model.json, where the form describes the layers. */
  readonly architecture: string | undefined;
  /** Names of the files of its folder that it consists of too. */
  readonly beside: readonly string[];
  /** Sentences about what of the file is not read, or read as something else. */
  readonly notes: readonly string[];
  /** Reads what of the file is not its tensors (shared/model/rest-of-file.ts); undefined where that is not kept. */
  readonly rest: () => Promise<Uint8Array | undefined>;
  /** @throws FILE_CHANGED where any of the files was written to since it was opened */
  readonly requireUnchanged: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const openingBrace = "{".charCodeAt(0);
/** Bytes by which a form is recognised. */
const firstBytes = 64;
const maxJsonBytes = 64 * 1024 * 1024;
const maxJsonValues = 2_500_000;
const maxFiles = 2_000;

/**
 * @param followLinks false: the named file must not be a link either, because another program chose what it is
 * @throws MODEL_FILE_MALFORMED naming what is wrong; FILE_MISSING, FILE_NOT_REGULAR, FILE_FAILED; also what reading
 * safetensors throws, for each shard
 */
export async function openModelFile(path: string, { followLinks = true } = {}): Promise<ModelFile> {
  const named = await openRegularFile(path, { followLinks });
  const opened = [named];
  const beside: string[] = [];
  const close = async (): Promise<void> => {
    for (const { file } of opened) await file.close();
  };
  const requireUnchanged = async (): Promise<void> => {
    for (const part of opened) await part.requireUnchanged();
  };
  try {
    refuseLoneShard(path);
    const content = await contentOf(inputOf(path, { opened, beside }));
    if (content === undefined) await refuseOtherFile(named, path);
    const model = content === undefined ? plainFile(named) : assembled(path, content);
    // A file that consists of others, too, comes back as safetensors alone.
    const rest = (): Promise<Uint8Array | undefined> =>
      content === undefined || beside.length > 0
        ? Promise.resolve(undefined)
        : restOfFile(named, path, content);
    return { ...model, beside, rest, requireUnchanged, close };
  } catch (error) {
    await requireUnchanged().finally(close);
    throw error;
  }
}

/**
 * Refuses a file that cannot be safetensors, and is not called so, with the way to keep it as it is.
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED
 */
async function refuseOtherFile({ file, size }: OpenedPart, path: string): Promise<void> {
  const first = Buffer.alloc(Math.min(size, 9));
  await readFully(file, first, 0, path);
  const isLikely = first.length === 9 && first[8] === openingBrace && first.readBigUInt64LE(0) <= size - 8;
  if (isLikely || /\.safetensors$/i.test(path)) return;
  try {
    await readSafetensors(file, path);
  } catch (error) {
    if (!isStemmaError(error) || !/^SAFETENSORS_/.test(error.code)) throw error;
    throw new StemmaError(
      error.code,
      `${error.message} As the very file that a device's software loads, it is kept with \`--as file\`.`,
      { ...error.details, cause: error },
    );
  }
}

type Model = Omit<ModelFile, "beside" | "rest" | "requireUnchanged" | "close">;

function plainFile({ file, size }: RegularFile): Model {
  return { file, size, isPlain: true, architecture: undefined, notes: [] };
}

function assembled(path: string, content: FormContent): Model {
  const { architecture, notes, tensors } = content;
  if (tensors.length === 0)
    throw new StemmaError(
      "MODEL_FILE_MALFORMED",
      `${path} has no tensors. Name a file that has a model's weights.`,
      {
        path,
      },
    );
  return { ...assembledFile(content), isPlain: false, architecture, notes };
}

async function contentOf(input: FormInput): Promise<FormContent | undefined> {
  const { file, size, path } = input;
  const first = Buffer.alloc(Math.min(size, firstBytes));
  await readFully(file, first, 0, path);
  for (const form of forms) {
    const content = form.matches(first) ? await form.open(input) : undefined;
    if (content !== undefined) return content;
  }
  return undefined;
}

/**
 * Reads a model file that came without its folder, such as the body of a request, as `openModelFile` does.
 * @param title what messages call the file
 * @throws MODEL_FILE_MALFORMED also for a file that names others
 */
export async function readLoneFile(
  file: ByteFile,
  title: string,
): Promise<Pick<ModelFile, "file" | "notes" | "architecture" | "rest">> {
  const size = await file.size();
  let json: Promise<JsonObject | undefined> | undefined;
  const content = await contentOf({
    file,
    size,
    path: title,
    json: () => (json ??= readJson(title, { file, size })),
    listBeside: () => Promise.reject(cameAlone(title)),
    openBeside: () => Promise.reject(cameAlone(title)),
  });
  const none = (): Promise<undefined> => Promise.resolve(undefined);
  return content === undefined
    ? { file, notes: [], architecture: undefined, rest: none }
    : { ...assembled(title, content), rest: () => restOfFile({ file, size }, title, content) };
}

function cameAlone(title: string): StemmaError {
  return formMalformed(
    title,
    "a model",
    "it names other files, and they were not sent with it. `stemma model import` sends all of them.",
  );
}

function inputOf(
  path: string,
  { opened, beside }: { readonly opened: RegularFile[]; readonly beside: string[] },
): FormInput {
  const { file, size } = opened[0] as RegularFile;
  const part = { file, size };
  let json: Promise<JsonObject | undefined> | undefined;
  const folder = dirname(path);
  return {
    ...part,
    path,
    json: () => (json ??= readJson(path, part)),
    async listBeside() {
      return await readdir(folder).catch((error: unknown) => {
        throw fileError(error, "list", folder);
      });
    },
    async openBeside(name) {
      requirePlainName(path, name);
      if (opened.length >= maxFiles)
        throw formMalformed(path, "a model", `it names more than ${maxFiles} files. Write it in fewer.`);
      const one = await openRegularFile(join(folder, name), { followLinks: false }).catch(
        (error: unknown) => {
          throw explainedLink(error, name);
        },
      );
      opened.push(one);
      beside.push(name);
      return one;
    },
  };
}

/** A name from inside a file must not lead out of its folder. */
function requirePlainName(path: string, name: string): void {
  if (
    name !== "." &&
    name !== ".." &&
    name === basename(name) &&
    !/[\\\u0000-\u001f]/.test(name) &&
    name !== ""
  )
    return;
  throw formMalformed(
    path,
    "a model",
    `it names the file ${JSON.stringify(name.slice(0, 80))}, and only files of its own folder are read. Write ` +
      "plain names, or look where this file comes from.",
  );
}

/** The cache of Hugging Face consists of links: a file that another file names is not read through one. */
function explainedLink(error: unknown, name: string): unknown {
  return isStemmaError(error, "FILE_NOT_REGULAR")
    ? new StemmaError(
        "FILE_NOT_REGULAR",
        `${error.message} ${name} is named by another file, so links are not followed: copy the folder with cp -rL.`,
        { cause: error },
      )
    : error;
}

async function readJson(path: string, { file, size }: OpenedPart): Promise<JsonObject | undefined> {
  const fail = (reason: string): never => {
    throw formMalformed(path, "JSON", `${reason}. Write it again with the tool it came from.`);
  };
  if (size > maxJsonBytes) fail(`it has ${size} bytes, more than ${maxJsonBytes}`);
  const bytes = new Uint8Array(size);
  await readFully(file, bytes, 0, path);
  if (!beginsJsonObject(Buffer.from(bytes.subarray(0, firstBytes)))) return undefined;
  const text = decodeText(bytes, fail);
  const json = parseStrictJson(text, { maxDepth: 64, maxValues: maxJsonValues }, (reason, at) =>
    fail(`${reason} (character ${at})`),
  );
  return isJsonObject(json) ? json : undefined;
}
