/** Recognises model files of other formats by their first bytes, and names the way to safetensors. Pure. */

interface ForeignFormat {
  readonly name: string;
  matches(bytes: Buffer): boolean;
  /** Advice on what to do with such a file. */
  readonly advice: string;
}

const startsWith =
  (...magic: readonly number[]) =>
  (bytes: Buffer): boolean =>
    bytes.length >= magic.length && magic.every((byte, at) => bytes[at] === byte);
const text =
  (magic: string, at = 0) =>
  (bytes: Buffer): boolean =>
    bytes.toString("latin1", at, at + magic.length) === magic;

const withSaveFile =
  "and write its tensors with `safetensors.torch.save_file` or `safetensors.numpy.save_file` (pip install safetensors)";

/** The first that matches counts. */
const formats: readonly ForeignFormat[] = [
  {
    name: "a ZIP archive, as PyTorch (.pt, .pth, .bin), Keras (.keras) and NumPy (.npz) write them",
    matches: startsWith(0x50, 0x4b, 0x03, 0x04),
    advice:
      'Convert it in Python: `import torch; from safetensors.torch import save_file; save_file(torch.load("model.pt", map_location="cpu", weights_only=True), "model.safetensors")`; a Keras or NumPy archive is loaded with keras.models.load_model or numpy.load, and its tensors written with `safetensors.numpy.save_file`',
  },
  {
    name: "a Python pickle, as old PyTorch versions write them",
    matches: (bytes) => bytes[0] === 0x80 && (bytes[1] ?? 0) >= 2 && (bytes[1] ?? 0) <= 5,
    advice: `Load it in Python with \`torch.load(path, map_location="cpu", weights_only=True)\`, ${withSaveFile}`,
  },
  {
    name: "an HDF5 file, as Keras (.h5) writes them",
    matches: startsWith(0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a),
    advice: `Load it in Python with \`keras.models.load_model\`, ${withSaveFile}`,
  },
  {
    name: "an ONNX model",
    // Protocol buffers: ir_version (field 1, varint), then the producer's name (2), the graph (7) or opsets (8).
    matches: (bytes) =>
      bytes[0] === 0x08 &&
      (bytes[1] ?? 0) >= 1 &&
      (bytes[1] ?? 0) <= 20 &&
      [0x12, 0x3a, 0x42].includes(bytes[2] ?? 0),
    advice: `Read its initializers in Python (\`onnx.load\`, \`onnx.numpy_helper.to_array\`), ${withSaveFile}`,
  },
  {
    name: "a TensorFlow Lite model",
    matches: text("TFL3", 4),
    advice: `Take the tensors from the model that it was made from, ${withSaveFile}`,
  },
  {
    name: "a GGUF file",
    matches: text("GGUF"),
    advice: `Read its tensors in Python with the package gguf, ${withSaveFile}`,
  },
  {
    name: "a NumPy array",
    matches: startsWith(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59),
    advice: `Load it in Python with \`numpy.load\`, ${withSaveFile}`,
  },
  {
    name: "a gzip file",
    matches: startsWith(0x1f, 0x8b),
    advice: "Unpack it first",
  },
  {
    name: "JSON",
    matches: (bytes) => /^\s*[[{]\s*["[{\]}0-9]/.test(bytes.toString("latin1")),
    advice:
      "A TensorFlow.js model.json describes the layers: pass it with `--arch model.json`, next to a .safetensors file with the weights",
  },
];

export interface ForeignFile {
  readonly name: string;
  readonly advice: string;
}

/** The number of first bytes that `recognizeForeignFile` looks at. */
export const recognizedBytes = 32;

/** @param bytes the first bytes of a file that is not safetensors */
export function recognizeForeignFile(bytes: Uint8Array): ForeignFile | undefined {
  const first = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, recognizedBytes));
  const found = formats.find((format) => format.matches(first));
  return found === undefined ? undefined : { name: found.name, advice: found.advice };
}
