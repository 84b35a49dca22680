/** Models in the forms of other tools, as folders of files, and what is read of them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openModelFile } from "../../shared/forms/model-file.js";
import { openSafetensors } from "../../shared/save/open-safetensors.js";

/** File name → content. */
export type Files = Readonly<Record<string, Uint8Array>>;

export interface ForeignModel {
  /** The file that a person names. */
  readonly main: string;
  readonly files: Files;
}

export interface ReadModel {
  /** "F32 [2,3] hex" by name. */
  readonly tensors: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly architecture: string | undefined;
  readonly notes: readonly string[];
}

/** The folder that all models of a test file are written to, one after the other. */
export class ModelFolder {
  readonly path = mkdtempSync(join(tmpdir(), "stemma-forms-"));
  #written: string[] = [];

  write({ files }: ForeignModel): void {
    for (const name of this.#written) rmSync(join(this.path, name), { force: true });
    this.#written = Object.keys(files);
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(this.path, name), bytes);
  }

  async read(model: ForeignModel): Promise<ReadModel> {
    this.write(model);
    return await readModel(join(this.path, model.main));
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

export async function readModel(path: string): Promise<ReadModel> {
  const { file, architecture, notes, close } = await openModelFile(path);
  try {
    const opened = await openSafetensors(file, path);
    const tensors: [string, string][] = [];
    for (const tensor of opened.tensors) {
      const pieces: Uint8Array[] = [];
      for await (const piece of opened.source(tensor).chunks()) pieces.push(piece);
      const hex = Buffer.concat(pieces).toString("hex");
      tensors.push([tensor.name, `${tensor.dtype} [${tensor.shape.join(",")}] ${hex}`]);
    }
    return { tensors: Object.fromEntries(tensors), metadata: opened.metadata, architecture, notes };
  } finally {
    await close();
  }
}

type Described = readonly [name: string, dtype: string, shape: readonly number[], bytes: Buffer];

export function safetensors(
  tensors: readonly Described[],
  metadata?: Readonly<Record<string, string>>,
): Buffer {
  let at = 0;
  const members = tensors.map(([name, dtype, shape, bytes]) => {
    at += bytes.length;
    return [name, { dtype, shape, data_offsets: [at - bytes.length, at] }] as const;
  });
  const header = Buffer.from(
    JSON.stringify({ ...(metadata && { __metadata__: metadata }), ...Object.fromEntries(members) }),
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, ...tensors.map(([, , , bytes]) => bytes)]);
}

export function floats(...values: readonly number[]): Buffer {
  return Buffer.from(Float32Array.from(values).buffer);
}

const jsonOf = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

export const shardNames = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"] as const;

/** Two shards; `index` changes the index's members. */
export function shardedModel(
  change: { readonly index?: Readonly<Record<string, unknown>>; readonly files?: Files } = {},
): ForeignModel {
  const [one, two] = shardNames;
  const index = { metadata: { total_size: 16 }, weight_map: { b: one, a: one, c: two }, ...change.index };
  return {
    main: "m.safetensors.index.json",
    files: {
      "m.safetensors.index.json": jsonOf(index),
      [one]: safetensors(
        [
          ["b", "F32", [2], floats(1, 2)],
          ["a", "F32", [], floats(3)],
        ],
        { format: "pt", n: "1" },
      ),
      [two]: safetensors([["c", "F32", [1], floats(4)]], { format: "pt", n: "2" }),
      ...change.files,
    },
  };
}

/** The names in the model of several PyTorch files. */
export const torchShards = {
  index: "pytorch_model.bin.index.json",
  one: "pytorch_model-00001-of-00002.bin",
  two: "pytorch_model-00002-of-00002.bin",
} as const;

/** Two shards that huggingface_hub wrote; `index` changes the index's members. */
export function shardedTorchModel(index: Readonly<Record<string, unknown>> = {}): ForeignModel {
  const files = Object.fromEntries(
    Object.values(torchShards).map((name) => [name, readFileSync(new URL(name, vectorFolder))]),
  );
  const written = JSON.parse(String(files[torchShards.index])) as Record<string, unknown>;
  return {
    main: torchShards.index,
    files: { ...files, [torchShards.index]: jsonOf({ ...written, ...index }) },
  };
}

/** A model.json of two groups, one over two files; `weights` replaces those of the first group. */
export function tfjsModelFiles(
  change: { readonly weights?: readonly object[]; readonly files?: Files; readonly json?: object } = {},
): ForeignModel {
  const weights = change.weights ?? [
    {
      name: "d/kernel",
      shape: [2, 1],
      dtype: "float32",
      quantization: { dtype: "uint8", scale: 0.5, min: -1 },
    },
    { name: "d/bias", shape: [3], dtype: "float32" },
  ];
  const json = {
    format: "graph-model",
    modelTopology: { node: [] },
    weightsManifest: [
      { paths: ["g1-1of2.bin", "g1-2of2.bin"], weights },
      { paths: ["g2.bin"], weights: [{ name: "n", shape: [1], dtype: "int32" }] },
    ],
    ...change.json,
  };
  return {
    main: "model.json",
    files: {
      "model.json": jsonOf(json),
      "g1-1of2.bin": Buffer.concat([Buffer.from([0, 255]), floats(1).subarray(0, 3)]),
      "g1-2of2.bin": Buffer.concat([floats(1).subarray(3), floats(2, 3)]),
      "g2.bin": Buffer.from([7, 0, 0, 0]),
      ...change.files,
    },
  };
}

export const vectorFolder = new URL("../vectors/forms/", import.meta.url);

export function torchModel(
  bytes: Uint8Array = readFileSync(new URL("state.pt", vectorFolder)),
): ForeignModel {
  return { main: "state.pt", files: { "state.pt": bytes } };
}

/** A model of one file that another program wrote. */
export function vectorModel(name: string): ForeignModel {
  return { main: name, files: { [name]: readFileSync(new URL(name, vectorFolder)) } };
}
