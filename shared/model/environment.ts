/**
 * The environment of a save (MM1): what it holds, how it is stored, how two of them compare, and what
 * follows from that. Values come in as data; node-environment.ts reads them from Node.
 */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical } from "./canonical-json.js";

/** Environment of a save, stored once by content (MM1). Flat: field → value. */
export type Environment = Readonly<Record<string, string>>;
export interface EnvironmentVerdict {
  /**
   * `same`: all fields are equal. `compatible`: only fields differ that do not affect a result's bits.
   * `different`: other fields differ.
   */
  readonly verdict: "same" | "compatible" | "different";
  readonly differing: readonly {
    readonly field: string;
    readonly recorded: string | undefined;
    readonly here: string | undefined;
  }[];
}
/** The action on a verdict. */
export type EnvironmentPolicy = "ignore" | "report" | "refuse-different" | "refuse-any";

/** The known facts of a machine and its software; unknown fields are left out. */
export interface EnvironmentFacts {
  /**
   * "wasm", "native", "cuda", "external" where another program of the device trained, or "none" where nothing was
   * trained (an import).
   */
  readonly backend: string;
  /** Version of Stemma. */
  readonly stemma: string;
  /** Hash of the engine bundle. */
  readonly engine?: string;
  readonly node?: string;
  readonly v8?: string;
  readonly os?: string;
  readonly kernel?: string;
  readonly arch?: string;
  readonly cpu?: string;
  readonly instructionSet?: string;
  readonly memoryBytes?: number;
  readonly threads?: number;
  readonly gpu?: string | undefined;
  readonly driver?: string | undefined;
  readonly cuda?: string | undefined;
  readonly cudnn?: string | undefined;
  /** TensorFlow's settings: whether it uses oneDNN, and repeatable forms of its operations. */
  readonly oneDnn?: string;
  readonly deterministicOps?: string;
  /** Root of the reference training on this machine (train/native/native-class.ts). */
  readonly referenceTraining?: string;
  /** Libraries of the process in the order in which they were loaded, and backends, the one that trains first. */
  readonly loadOrder?: string;
  readonly backendOrder?: string;
  /** Third-party libraries: name → version. */
  readonly libraries?: Readonly<Record<string, string>>;
}

const maxFields = 1_000;
const maxBytes = 64 * 1024;

/** The flat form that is stored: libraries become `library.<name>`. */
export function captureEnvironment({ libraries = {}, ...facts }: EnvironmentFacts): Environment {
  const fields = Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([field, value]) => [field, String(value)] as const);
  const versions = Object.entries(libraries).map(([name, version]) => [`library.${name}`, version] as const);
  return Object.fromEntries([...fields, ...versions]);
}

export function encodeEnvironment(environment: Environment): Uint8Array {
  return encodeCanonical({ format: 1, fields: environment }, { maxBytes });
}

/** @throws CANONICAL_JSON_INVALID */
export function decodeEnvironment(bytes: Uint8Array): Environment {
  const value = decodeCanonical(bytes, { maxBytes, maxDepth: 2 }) as {
    readonly format?: unknown;
    readonly fields?: unknown;
  } | null;
  const fields = value?.fields;
  if (
    value?.format !== 1 ||
    typeof fields !== "object" ||
    fields === null ||
    Array.isArray(fields) ||
    Object.keys(fields).length > maxFields ||
    !Object.values(fields).every((field) => typeof field === "string")
  ) {
    throw new StemmaError(
      "CANONICAL_JSON_INVALID",
      "This is not an environment record: it is not a map of texts of format 1. Fetch it again from where it was saved.",
    );
  }
  return fields as Environment;
}

/**
 * The fields that affect a result's bits, by backend (docs/glossary.md, "exactness class"); undefined: all
 * fields, because this Stemma does not know the backend.
 */
function decidingFields(backend: string | undefined): ((field: string) => boolean) | undefined {
  const native = (field: string): boolean =>
    ["backend", "engine", "arch", "instructionSet", "threads", "oneDnn", "deterministicOps"].includes(
      field,
    ) ||
    ["referenceTraining", "gpu", "driver", "cuda", "cudnn"].includes(field) ||
    field.startsWith("library.");
  switch (backend) {
    // Nothing was trained, or by a program that is not part of Stemma and that no environment can repeat: the bits
    // are those of the tensors.
    case "none":
    case "external":
      return () => false;
    // Measured equal over processes, Node 18 to 24, threads, x64 and arm64: the engine bundle alone decides.
    case "wasm":
      return (field) => field === "backend" || field === "engine";
    case "native":
    case "cuda":
      return native;
    default:
      return undefined;
  }
}

/** True if a field states how a training was run, not where: wasm gives the same bits with every number of threads. */
const isSettingOfRun = (field: string, backend: string | undefined): boolean =>
  field === "threads" && backend === "wasm";

/** Compares the environment recorded with a model with the environment of this machine. */
export function judgeEnvironment(recorded: Environment, here: Environment): EnvironmentVerdict {
  const fields = [...new Set([...Object.keys(recorded), ...Object.keys(here)])].sort();
  const differing = fields
    .map((field) => ({
      field,
      recorded: Object.hasOwn(recorded, field) ? recorded[field] : undefined,
      here: Object.hasOwn(here, field) ? here[field] : undefined,
    }))
    .filter((pair) => pair.recorded !== pair.here && !isSettingOfRun(pair.field, recorded["backend"]));
  const decides = decidingFields(recorded["backend"]);
  const different = differing.some(({ field }) => decides === undefined || decides(field));
  return { verdict: differing.length === 0 ? "same" : different ? "different" : "compatible", differing };
}

/** Applies a policy to a verdict. @throws ENVIRONMENT_DIFFERENT */
export function enforceEnvironment(verdict: EnvironmentVerdict, policy: EnvironmentPolicy): void {
  const refused =
    (policy === "refuse-different" && verdict.verdict === "different") ||
    (policy === "refuse-any" && verdict.verdict !== "same");
  if (!refused) return;
  const shown = verdict.differing
    .slice(0, 5)
    .map(
      ({ field, recorded, here }) => `${field} (${recorded ?? "nothing"} there, ${here ?? "nothing"} here)`,
    )
    .join(", ");
  throw new StemmaError(
    "ENVIRONMENT_DIFFERENT",
    `The model was saved in another environment: ${shown}${verdict.differing.length > 5 ? " …" : ""}. Recover it there, or allow the difference.`,
    { verdict },
  );
}
