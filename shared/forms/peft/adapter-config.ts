/**
 * The adapter_config.json that the library peft writes next to a LoRA adapter (peft, tuners/lora/config.py). Every
 * setting that changes what the adapter means, and is not known here, is refused by its name. Pure.
 */
import { decodeText } from "../../model/canonical-json.js";
import {
  isJsonArray,
  isJsonObject,
  parseStrictJson,
  type Json,
  type JsonObject,
} from "../../tensor/strict-json.js";
import { formMalformed, listed, quoted } from "../form.js";

export const adapterConfigName = "adapter_config.json";

export interface AdapterConfig {
  /** The rank: rows of each A, columns of each B. */
  readonly rank: number;
  /** The factor of B · A. */
  readonly scale: number;
  /** The base as the file states it: a name or path of another tool. */
  readonly statedBase: string | undefined;
}

export const maxConfigBytes = 1024 * 1024;
const maxRank = 65_536;

/** Settings that act only while training, or only choose the layers, which the tensors' names state. */
const harmless: ReadonlySet<string> = new Set([
  ...["auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode", "layers_pattern"],
  ...["layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core", "peft_type", "peft_version"],
  ...["qalora_group_size", "r", "revision", "runtime_config", "target_modules", "task_type", "use_rslora"],
]);

/** First values of A and B that leave the base's weights as they are; others have changed them. */
const plainBeginnings: readonly Json[] = [true, false, "gaussian", "eva", "orthogonal"];

/** @throws MODEL_FILE_MALFORMED naming the setting that is not supported */
export function readAdapterConfig(bytes: Uint8Array, path: string): AdapterConfig {
  const fail = (reason: string): never => {
    throw formMalformed(
      path,
      "the settings of a LoRA adapter",
      `${reason}. Merge such an adapter with the library that made it, and import the merged model.`,
    );
  };
  const json = objectOf(bytes, fail);
  const type = json.get("peft_type");
  if (type !== "LORA") fail(`its peft_type is ${shown(type)}, and only "LORA" is read`);
  refuseOthers(json, fail);
  const rank = json.get("r");
  if (typeof rank !== "number" || !Number.isInteger(rank) || rank < 1 || rank > maxRank)
    return fail(`its r is ${shown(rank)}, which is not a rank`);
  const alpha = json.get("lora_alpha");
  if (typeof alpha !== "number" || !Number.isFinite(Math.fround(alpha)))
    return fail(`its lora_alpha is ${shown(alpha)}, which is not a number`);
  const rootOfRank = json.get("use_rslora") ?? false;
  if (typeof rootOfRank !== "boolean") fail(`its use_rslora is ${shown(rootOfRank)}`);
  const stated = json.get("base_model_name_or_path");
  return {
    rank,
    scale: alpha / (rootOfRank === true ? Math.sqrt(rank) : rank),
    statedBase: typeof stated === "string" && stated !== "" ? stated : undefined,
  };
}

function objectOf(bytes: Uint8Array, fail: (reason: string) => never): JsonObject {
  if (bytes.length > maxConfigBytes) fail(`it has more than ${maxConfigBytes} bytes`);
  const text = decodeText(bytes, fail);
  const json = parseStrictJson(text, { maxDepth: 16, maxValues: 100_000 }, (reason, at) =>
    fail(`${reason} (character ${at})`),
  );
  return isJsonObject(json) ? json : fail("it is not an object");
}

function refuseOthers(json: JsonObject, fail: (reason: string) => never): void {
  const others = [...json].filter(([name, value]) => !isWithoutEffect(name, value)).map(([name]) => name);
  if (others.length > 0)
    fail(
      `it has settings that are not supported: ${listed(others)} (${shown(json.get(others[0] as string))})`,
    );
}

function isWithoutEffect(name: string, value: Json): boolean {
  if (harmless.has(name) || value === null || value === false) return true;
  if (name === "bias") return value === "none";
  if (name === "init_lora_weights") return plainBeginnings.includes(value);
  return isJsonObject(value) ? value.size === 0 : isJsonArray(value) && value.length === 0;
}

function shown(value: Json | undefined): string {
  if (value === undefined) return "missing";
  return typeof value === "string"
    ? quoted(value)
    : typeof value === "object" && value !== null
      ? "set"
      : String(value);
}
