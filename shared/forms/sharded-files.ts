/**
 * Models of several files and an index, as Hugging Face's tools write what is larger than 5 GB, in safetensors or by
 * `torch.save`: `{"metadata": {"total_size": …}, "weight_map": {tensor: file}}`. Nobody else compares these with each
 * other.
 */
import { openSafetensors } from "../save/open-safetensors.js";
import { tensorByteLength } from "../tensor/dtype.js";
import { basename, dirname, join } from "node:path";
import { readFully } from "../tensor/safetensors-reader.js";
import { isJsonObject, type Json, type JsonObject } from "../tensor/strict-json.js";
import {
  beginsJsonObject,
  formMalformed,
  listed,
  quoted,
  type Form,
  type FormContent,
  type FormInput,
  type FormTensor,
} from "./form.js";
import { wrongShardNames } from "./shard-names.js";
import { beginsTorchFile, readStateDict } from "./torch/torch-file.js";

const title = "an index of a model's files";

type Fail = (reason: string) => never;

/** One shard, opened. */
interface Shard extends FormContent {
  readonly name: string;
  /** Bytes of its tensors, those of one storage counted once. */
  readonly storedBytes: number;
}

export const shardedFiles: Form = {
  matches: beginsJsonObject,
  async open(input) {
    const json = await input.json();
    const map = json?.get("weight_map");
    return json === undefined || map === undefined ? undefined : await openShards(input, json, map);
  },
};

async function openShards(input: FormInput, json: JsonObject, map: Json): Promise<FormContent> {
  const fail: Fail = (reason) => {
    throw formMalformed(
      input.path,
      title,
      `${reason}. Get index and shards again from where they came from.`,
    );
  };
  const wanted = weightMap(map, fail);
  const names = [...new Set(wanted.values())].sort();
  const inFolder = await input.listBeside();
  const wrong = wrongShardNames(names, inFolder);
  if (wrong !== undefined) fail(wrong);
  const missing = names.filter((name) => basename(name) === name && !inFolder.includes(name));
  if (missing.length > 0) fail(`next to it ${missing.length === 1 ? "is no" : "are no"} ${listed(missing)}`);
  const shards: Shard[] = [];
  for (const name of names) shards.push(await openShard(input, name));
  compareTensors(wanted, shards, fail);
  compareSize(json, shards, fail);
  const { metadata, notes } = metadataOf(shards);
  return {
    tensors: shards.flatMap(({ tensors }) => tensors),
    metadata,
    notes: [...notesOn(json), ...new Set(shards.flatMap((shard) => shard.notes)), ...notes],
  };
}

/** @throws what reading its form throws, with the shard's path */
async function openShard(input: FormInput, name: string): Promise<Shard> {
  const part = await input.openBeside(name);
  const path = join(dirname(input.path), name);
  if (await beginsTorchFile(part, path)) return { name, ...(await readStateDict({ ...part, path })) };
  const { tensors, metadata, dataStart } = await openSafetensors(part.file, path);
  return {
    name,
    tensors: tensors.map(({ name: tensor, dtype, shape, begin }) => ({
      name: tensor,
      dtype,
      shape,
      read: (target, from) => readFully(part.file, target, dataStart + begin + from, name),
    })),
    metadata,
    notes: [],
    storedBytes: bytesOf(tensors),
  };
}

function bytesOf(tensors: readonly Pick<FormTensor, "dtype" | "shape">[]): number {
  return tensors.reduce((sum, { dtype, shape }) => sum + tensorByteLength(dtype, shape), 0);
}

/** Tensor → shard. */
function weightMap(map: Json, fail: Fail): ReadonlyMap<string, string> {
  if (!isJsonObject(map)) return fail("its weight_map is not an object");
  for (const [tensor, name] of map)
    if (typeof name !== "string") fail(`the shard of the tensor ${quoted(tensor)} is not a name`);
  if (map.size === 0) fail("its weight_map is empty");
  return map as ReadonlyMap<string, string>;
}

/** Each tensor is in exactly the shard that the index names. */
function compareTensors(wanted: ReadonlyMap<string, string>, shards: readonly Shard[], fail: Fail): void {
  const found = new Map<string, string>();
  for (const { name, tensors } of shards)
    for (const tensor of tensors) {
      const before = found.get(tensor.name);
      if (before !== undefined)
        fail(`the tensor ${quoted(tensor.name)} is in ${quoted(before)} and in ${quoted(name)}`);
      found.set(tensor.name, name);
    }
  for (const [tensor, name] of wanted) {
    const actual = found.get(tensor);
    if (actual === undefined) fail(`${quoted(name)} does not have the tensor ${quoted(tensor)}`);
    if (actual !== name)
      fail(`the tensor ${quoted(tensor)} is in ${quoted(actual ?? "")} instead of ${quoted(name)}`);
  }
  const unknown = [...found.keys()].filter((tensor) => !wanted.has(tensor));
  if (unknown.length > 0) fail(`its shards have tensors that it does not name: ${listed(unknown)}`);
}

function compareSize(json: JsonObject, shards: readonly Shard[], fail: Fail): void {
  const metadata = json.get("metadata");
  const stated = isJsonObject(metadata) ? metadata.get("total_size") : undefined;
  const size = shards.reduce((sum, { tensors }) => sum + bytesOf(tensors), 0);
  const storedSize = shards.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  // Newer tools count tied tensors once, older ones each.
  if (stated !== undefined && stated !== size && stated !== storedSize)
    fail(`it states a total_size of ${JSON.stringify(stated)}, but its tensors have ${size} bytes`);
}

/** The metadata on which all shards agree. */
function metadataOf(shards: readonly Shard[]): Pick<FormContent, "metadata" | "notes"> {
  const [first, ...others] = shards.map(({ metadata }) => metadata ?? {});
  const agreed = Object.entries(first ?? {}).filter(([name, value]) =>
    others.every((metadata) => Object.hasOwn(metadata, name) && metadata[name] === value),
  );
  const all = new Set([first ?? {}, ...others].flatMap(Object.keys));
  const lost = [...all].filter((name) => !agreed.some(([kept]) => kept === name));
  return {
    metadata: agreed.length === 0 ? undefined : Object.fromEntries(agreed),
    notes: lost.length === 0 ? [] : [`metadata that differ between the shards are not kept: ${listed(lost)}`],
  };
}

function notesOn(json: JsonObject): readonly string[] {
  const metadata = json.get("metadata");
  const others = [
    ...[...json.keys()].filter((name) => name !== "metadata" && name !== "weight_map"),
    ...(isJsonObject(metadata) ? [...metadata.keys()].filter((name) => name !== "total_size") : []),
  ];
  return others.length === 0 ? [] : [`of the index these members are not kept: ${listed(others)}`];
}
