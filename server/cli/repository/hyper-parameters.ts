/** Hyper-parameters in the configuration files of a training: JSON and YAML, nested names joined by points. */
import { parseYaml } from "../../../shared/cli/parse-yaml.js";
import { StemmaError } from "../../../shared/errors.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import { isReservedName } from "./current-version.js";

const maxParameters = 500;
const maxDepth = 8;
const maxTextCharacters = 4096;

/**
 * @param name of the file; those in other forms are kept with the version, and have none
 * @throws CONFIG_INVALID
 */
export function hyperParametersIn(name: string, bytes: Uint8Array): ModelMetadata {
  const isJson = /\.json$/i.test(name);
  if (!isJson && !/\.ya?ml$/i.test(name)) return {};
  const text = Buffer.from(bytes).toString("utf8");
  let value: unknown;
  try {
    value = isJson ? (JSON.parse(text) as unknown) : parseYaml(text);
  } catch (cause) {
    throw invalid(name, (cause as Error).message.split("\n", 1)[0] ?? "", cause);
  }
  const found: Record<string, string | number | boolean> = {};
  gather(value, "", (path, scalar) => {
    found[path] = scalar;
  });
  if (Object.keys(found).length > maxParameters)
    throw invalid(name, `it has more than ${maxParameters} values; add it as a note`);
  const wrong = wrongName(Object.keys(found));
  if (wrong !== undefined) throw invalid(name, wrong);
  return found;
}

/** The reason why a name is not that of a hyper-parameter: Stemma writes it itself, or it cannot be typed. */
export function wrongName(names: readonly string[]): string | undefined {
  for (const name of names) {
    if (isReservedName(name)) return `names like ${name} are Stemma's own`;
    if (!/^[^\p{Cc}\p{Cs}=<>]{1,200}$/u.test(name))
      return `${JSON.stringify(name.slice(0, 80))} is not a name of a hyper-parameter`;
  }
  return undefined;
}

function gather(
  value: unknown,
  path: string,
  put: (path: string, scalar: string | number | boolean) => void,
  depth = 0,
): void {
  if (typeof value === "number" ? Number.isFinite(value) : typeof value === "boolean")
    put(path || "value", value as number | boolean);
  else if (typeof value === "string") put(path || "value", value.slice(0, maxTextCharacters));
  else if (Array.isArray(value)) put(path || "value", JSON.stringify(value).slice(0, maxTextCharacters));
  else if (typeof value === "object" && value !== null && depth < maxDepth)
    for (const [name, member] of Object.entries(value))
      gather(member, path === "" ? name : `${path}.${name}`, put, depth + 1);
}

function invalid(name: string, reason: string, cause?: unknown): StemmaError {
  return new StemmaError(
    "CONFIG_INVALID",
    `The hyper-parameters in ${name} cannot be read: ${reason}. Correct them, or add the file with \`--as note\`.`,
    { cause },
  );
}
