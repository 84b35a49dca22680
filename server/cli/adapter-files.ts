/** The settings next to a LoRA adapter's tensors, as the library peft saves both, for an import. */
import { basename, dirname, join } from "node:path";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { openRegularFile } from "../../shared/files/regular-file.js";
import { formMalformed } from "../../shared/forms/form.js";
import {
  adapterConfigName,
  maxConfigBytes,
  readAdapterConfig,
} from "../../shared/forms/peft/adapter-config.js";
import { readFully } from "../../shared/tensor/safetensors-reader.js";

interface AttachedFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

const adapterNames: readonly string[] = ["adapter_model.safetensors", "adapter_model.bin"];

/**
 * Reads the settings next to an adapter, which are kept with it; nothing for other files.
 * @returns the file to attach, and sentences for the person at the terminal
 * @throws MODEL_FILE_MALFORMED naming what is not supported; USAGE with --onto; FILE_NOT_REGULAR for a link
 */
export async function adapterConfigBeside(
  file: string,
  choices: {
    readonly base: string | undefined;
    readonly onto: string | undefined;
    /** Files that are attached anyhow. */
    readonly attached: readonly AttachedFile[];
  },
): Promise<{ readonly attachment?: AttachedFile; readonly notes: readonly string[] }> {
  if (!adapterNames.includes(basename(file))) return { notes: [] };
  const given = choices.attached.find(({ name }) => name === adapterConfigName);
  const path = join(dirname(file), adapterConfigName);
  const bytes = given?.bytes ?? (await contentOf(path));
  if (bytes === undefined)
    return {
      notes: [`${adapterConfigName} is not next to it: as it is saved, it cannot be merged into its base`],
    };
  const { statedBase } = readAdapterConfig(bytes, path);
  if (choices.onto !== undefined)
    throw new StemmaError(
      "USAGE",
      `${file} is an adapter, and has none of its base's tensors. Use --base ${choices.onto} instead of --onto.`,
    );
  const base = statedBase === undefined ? "no base" : `the base ${JSON.stringify(statedBase.slice(0, 200))}`;
  const way =
    choices.base === undefined
      ? "; to merge it, import that model, and this one with --base, before `stemma model recover --merged`"
      : "";
  return {
    ...(given === undefined ? { attachment: { name: adapterConfigName, bytes } } : {}),
    notes: [`${adapterConfigName} states ${base}, and is kept with it${way}`],
  };
}

/** Reads the settings of an adapter; undefined where there is no such file. */
async function contentOf(path: string): Promise<Uint8Array | undefined> {
  try {
    const { file, size } = await openRegularFile(path, { followLinks: false });
    try {
      if (size > maxConfigBytes)
        throw formMalformed(path, "the settings of an adapter", `it has more than ${maxConfigBytes} bytes.`);
      const bytes = new Uint8Array(size);
      await readFully(file, bytes, 0, path);
      return bytes;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    throw error;
  }
}
