/** The ending of a file's name as a statement about what is written there. Pure. */
import { basename } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { endingOf } from "../../shared/model/kept-file.js";

/** The forms that are written of a model's tensors. */
type WrittenForm = "safetensors" | "tfjs";

/** Endings of model files, and the form of which they are; null: of one that is not written. */
const formOfEnding: Readonly<Record<string, WrittenForm | null>> = {
  safetensors: "safetensors",
  json: "tfjs",
  ...Object.fromEntries(
    [
      "engine",
      "gguf",
      "h5",
      "hdf5",
      "keras",
      "npy",
      "npz",
      "onnx",
      "pb",
      "pkl",
      "pt",
      "pth",
      "tflite",
      "zip",
    ].map((ending) => [ending, null]),
  ),
};

/** Refuses a name that claims another form than that of the file that is written as it was saved. @throws USAGE */
export function requireEndingOfFile(path: string, saved: string): void {
  const ending = endingOf(path);
  if (ending === endingOf(saved) || !Object.hasOwn(formOfEnding, ending.slice(1))) return;
  throw new StemmaError(
    "USAGE",
    `${path} would not be what its ending ${ending} claims: the very file ${saved} is written. Name a file that ` +
      `ends in ${endingOf(saved) || "nothing known"}.`,
    { path },
  );
}

/** Refuses a name that claims another form than the one that is written. @throws USAGE */
export function requireEndingOfForm(path: string, form: WrittenForm): void {
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
