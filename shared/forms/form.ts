/** Defines what a reader of model files of another form is: a name, a look at the first bytes, and the tensors. */
import { StemmaError } from "../errors.js";
import type { JsonObject } from "../tensor/strict-json.js";
import type { ByteFile } from "../tensor/safetensors-reader.js";
import type { TensorHeader } from "../tensor/tensor.js";

/** A tensor of a model file; nothing of it is in memory until it is read. */
export interface FormTensor extends TensorHeader {
  readonly name: string;
  /** The position of its bytes in the file, where they lie there as they are. */
  readonly at?: number;
  /** Fills `target` with the tensor's bytes (little-endian, row-major) from byte `from` on. */
  read(target: Uint8Array, from: number): Promise<void>;
}

export interface FormContent {
  readonly tensors: readonly FormTensor[];
  /** Metadata as of a safetensors file. */
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** Text of a tfjs model.json without weights, where the form describes the layers. */
  readonly architecture?: string | undefined;
  /** Sentences about what of the file is not read, or read as something else. */
  readonly notes: readonly string[];
}

/** A file that is open and does not change while it is read. */
export interface OpenedPart {
  readonly file: ByteFile;
  readonly size: number;
}

/** The input of a form's reader: the named file, and the folder that it is in. */
export interface FormInput extends OpenedPart {
  /** The file's path, for messages. */
  readonly path: string;
  /**
   * A file of the same folder, by its plain name; it stays open as long as the model.
   * @throws FILE_MISSING, FILE_NOT_REGULAR for a link too, MODEL_FILE_MALFORMED for a name with a folder in it
   */
  openBeside(name: string): Promise<OpenedPart>;
  /** Names in the folder. */
  listBeside(): Promise<readonly string[]>;
  /** The file as JSON, undefined where it is not an object. Read once. @throws MODEL_FILE_MALFORMED where too long */
  json(): Promise<JsonObject | undefined>;
}

export interface Form {
  /** True where the first bytes may be of this form. */
  matches(first: Buffer): boolean;
  /** Returns undefined for a file that is of another form after all. @throws MODEL_FILE_MALFORMED */
  open(input: FormInput): Promise<FormContent | undefined>;
}

/** True for first bytes that begin a JSON object; a safetensors file of these would have a header of exabytes. */
export function beginsJsonObject(first: Buffer): boolean {
  return /^\s*\{\s*["}]/.test(first.toString("latin1"));
}

export function formMalformed(
  path: string,
  title: string,
  reason: string,
): StemmaError<"MODEL_FILE_MALFORMED"> {
  return new StemmaError("MODEL_FILE_MALFORMED", `${path} cannot be read as ${title}: ${reason}`, {
    path,
    reason,
  });
}

/** A name as messages show it. */
export function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 80));
}

/** The first three names, and the number of others. */
export function listed(names: readonly string[]): string {
  const more = names.length - 3;
  return names.slice(0, 3).map(quoted).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
