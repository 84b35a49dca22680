/** Names of shards, as Hugging Face's tools write them: model-00001-of-00003.safetensors or .bin. */
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { formMalformed, listed, quoted } from "./form.js";

interface ShardName {
  /** The name before the numbers. */
  readonly stem: string;
  /** The name of the index of all shards. */
  readonly indexName: string;
  readonly index: number;
  readonly count: number;
  nameOf(index: number): string;
}

/** A larger number is a name like any other. */
const maxShards = 2_000;

/** @returns undefined for a name that says nothing of shards */
function shardName(name: string): ShardName | undefined {
  const [, stem, index, count, ending] = /^(.+)-(\d{5})-of-(\d{5})\.(safetensors|bin)$/.exec(name) ?? [];
  if (stem === undefined || ending === undefined || Number(count) > maxShards) return undefined;
  return {
    stem,
    indexName: `${stem}.${ending}.index.json`,
    index: Number(index),
    count: Number(count),
    nameOf: (other) => `${stem}-${String(other).padStart(5, "0")}-of-${count as string}.${ending}`,
  };
}

/** Refuses one of several shards: it has only some of the model's tensors. @throws MODEL_FILE_MALFORMED */
export function refuseLoneShard(path: string): void {
  const shard = shardName(basename(path));
  if (shard === undefined || shard.count === 1) return;
  const index = shard.indexName;
  const others = Array.from({ length: shard.count }, (_, i) => shard.nameOf(i + 1)).filter(
    (name) => name !== basename(path),
  );
  const missing = [...others, index].filter((name) => !existsSync(join(dirname(path), name)));
  throw formMalformed(
    path,
    "a model",
    `by its name it is one of ${shard.count} shards of a model. ` +
      (missing.length === 0
        ? `Name ${index} instead, which stands next to it.`
        : `Next to it ${missing.length === 1 ? "is no" : "are no"} ${listed(missing)}: get all shards and their index, and name ${index}.`),
  );
}

/**
 * Compares the names that an index has with each other and with the folder's.
 * @returns what is wrong, undefined for nothing
 */
export function wrongShardNames(names: readonly string[], inFolder: readonly string[]): string | undefined {
  const shards = names.map(shardName);
  const first = shards.find((shard) => shard !== undefined);
  if (first === undefined) return undefined;
  const other = names.find(
    (_, i) => shards[i]?.indexName !== first.indexName || shards[i]?.count !== first.count,
  );
  if (other !== undefined)
    return `${quoted(other)} and ${quoted(first.nameOf(first.index))} are not shards of one model by their names`;
  const all = Array.from({ length: first.count }, (_, i) => first.nameOf(i + 1));
  const missing = all.filter((name) => !names.includes(name));
  if (missing.length > 0)
    return `by their names there are ${first.count} shards, but it does not name ${listed(missing)}`;
  if (names.length > all.length)
    return `by their names there are ${first.count} shards, but it names ${listed(names.filter((name) => !all.includes(name)))}`;
  const extra = inFolder.filter(
    (name) => shardName(name)?.indexName === first.indexName && !names.includes(name),
  );
  return extra.length === 0
    ? undefined
    : `next to it are shards that it does not name: ${listed(extra)}. Move what belongs to another model elsewhere`;
}
