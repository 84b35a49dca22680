/** Damaged model files: cut, flipped, spliced. Each is refused by a typed error, or read as far as it can be told. */
import assert from "node:assert/strict";
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { testSeed } from "./crash-states.js";
import {
  ModelFolder,
  shardedModel,
  shardedTorchModel,
  shardNames,
  tfjsModelFiles,
  torchModel,
  vectorModel,
  type Files,
  type ForeignModel,
  type ReadModel,
} from "./foreign-models.js";
import { seededNumbers } from "./manual-clock.js";
import { entriesOf, zipOf } from "./stored-zip.js";

interface HostileForm {
  /** What is damaged. */
  readonly files: Files;
  /** The model that damaged files make. */
  readonly modelOf: (files: Files) => ForeignModel;
  /** Files of which any change is found; what the others have is not protected by anything in the form. */
  readonly protectedFiles?: readonly string[];
}

function formOf(model: ForeignModel, ...protectedFiles: string[]): HostileForm {
  return { files: model.files, modelOf: (files) => ({ ...model, files }), protectedFiles };
}

function firstShard(): Uint8Array {
  return shardedModel().files[shardNames[0]] as Uint8Array;
}

/** The description in an archive, whose checksum is that of the damaged one. */
function describedByTorch(): HostileForm {
  const entries = entriesOf(torchModel().files["state.pt"] as Buffer);
  return {
    files: { "state/data.pkl": entries.get("state/data.pkl") as Uint8Array },
    modelOf: (files) => torchModel(zipOf(new Map([...entries, ...Object.entries(files)]))),
  };
}

export const hostileForms: Readonly<Record<string, () => HostileForm>> = {
  safetensors: () => formOf({ main: "m.safetensors", files: { "m.safetensors": firstShard() } }),
  "sharded safetensors": () => formOf(shardedModel(), "m.safetensors.index.json"),
  "sharded PyTorch": () => {
    const model = shardedTorchModel();
    return formOf(model, ...Object.keys(model.files));
  },
  "TensorFlow.js": () => formOf(tfjsModelFiles()),
  PyTorch: () => formOf(torchModel(), "state.pt"),
  "PyTorch's pickle": describedByTorch,
  "Keras's archive": () => formOf(vectorModel("two-3.keras"), "two-3.keras"),
  "Keras's HDF5": () => formOf(vectorModel("two-2.h5")),
};

/** Bytes that mean something in one of the forms. */
const tokens = [
  "PK\x01\x02",
  "TREE",
  "\x10\x00",
  "\xff\xff\xff\xff",
  "\x00",
  "..",
  "/",
  '"',
  "}",
  "-",
  "9999999999999999",
  shardNames[0],
  "Q",
  "R",
  "(",
];

type Numbers = () => number;

function mutated(bytes: Uint8Array, random: Numbers): Buffer {
  const below = (limit: number): number => Math.floor(random() * limit);
  const copy = Buffer.from(bytes);
  const at = below(copy.length);
  switch (below(4)) {
    case 0:
      return copy.subarray(0, at);
    case 1:
      copy[at] = (copy[at] as number) ^ (1 << below(8));
      return copy;
    case 2: {
      const from = below(copy.length);
      const piece = copy.subarray(from, from + below(64));
      return Buffer.concat([
        copy.subarray(0, at),
        piece,
        copy.subarray(at + (below(2) === 0 ? piece.length : 0)),
      ]);
    }
    default: {
      const token = Buffer.from(tokens[below(tokens.length)] as string, "latin1");
      return Buffer.concat([copy.subarray(0, at), token, copy.subarray(at + token.length)]);
    }
  }
}

/** Damaged copies of a file, each with the seed that makes it again. */
export function* damagedCopies(
  bytes: Uint8Array,
  count: number,
): Generator<{ readonly damaged: Buffer; readonly told: string }> {
  const seed = testSeed();
  const random = seededNumbers(seed);
  for (let i = 0; i < count; i++)
    yield { damaged: mutated(bytes, random), told: `damage ${i}, STEMMA_TEST_SEED=${seed}` };
}

/** Reads `count` damaged copies of a model; prints the seed of a failure. */
export async function readDamaged(form: string, count: number): Promise<void> {
  const { files, modelOf, protectedFiles = [] } = (hostileForms[form] as () => HostileForm)();
  using folder = new ModelFolder();
  const intact = await folder.read(modelOf(files));
  const seed = testSeed();
  const random = seededNumbers(seed);
  const names = Object.keys(files);
  for (let i = 0; i < count; i++) {
    const name = names[Math.floor(random() * names.length)] as string;
    const damaged = mutated(files[name] as Uint8Array, random);
    const model = modelOf({ ...files, [name]: damaged });
    const startMs = performance.now();
    const found = await folder.read(model).catch((error: unknown) => error);
    const told = `${form}, ${name}, damage ${i}, STEMMA_TEST_SEED=${seed}: ${String(found)}`;
    assert.ok(performance.now() - startMs < 5000, told);
    if (found instanceof Error)
      assert.ok(found instanceof StemmaError && !isStemmaError(found, "INTERNAL"), told);
    else if (protectedFiles.includes(name))
      assert.deepEqual((found as ReadModel).tensors, intact.tensors, told);
  }
}
