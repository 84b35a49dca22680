/** The ending of a file's name as a statement about what is written there. Pure. */
import { basename } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import type { RecoveryForm } from "../interface/api/models/version-schemas.js";

/** Endings of model files, and the form of which they are; null: of one that is not written. */
const formOfEnding: Readonly<Record<string, RecoveryForm | null>> = {
  safetensors: "safetensors",
  json: "tfjs",
  ...Object.fromEntries(
    ["gguf", "h5", "hdf5", "keras", "npy", "npz", "onnx", "pb", "pkl", "pt", "pth", "tflite", "zip"].map(
      (ending) => [ending, null],
    ),
  ),
};

/** Refuses a name that claims another form than the one that is written. @throws USAGE */
export function requireEndingOfForm(path: string, form: RecoveryForm): void {
  const ending = /\.([^.]+)$/.exec(basename(path))?.[1]?.toLowerCase() ?? "";
  const stated = Object.hasOwn(formOfEnding, ending) ? formOfEnding[ending] : form;
  if (stated === form) return;
  const way =
    stated === null || stated === undefined ? "That form is not written; n" : `Say --form ${stated}, or n`;
  throw new StemmaError(
    "USAGE",
    `${path} would not be what its ending .${ending} claims: the form ${form} is written. ` +
      `${way}ame a file that ends in .${form === "tfjs" ? "json" : "safetensors"}.`,
    { path },
  );
}
