/**
 * Reads the statement of a version's provenance on the program that trained it (member `program`), which may be
 * hostile; and the facts by which two machines are of one class for a program.
 */
import { arch, cpus, type as systemName } from "node:os";
import { defined } from "../defined.js";
import type { CanonicalValue } from "../model/canonical-json.js";
import type { MachineFacts, ProgramRecord } from "../provenance/provenance.js";
import { isHash } from "../tensor/hash.js";
import { readLibraries } from "./program-libraries.js";

const maxFact = 200;
/** The largest value of each limit that a job may state. */
const maxLimits: Readonly<Record<keyof ProgramRecord["limits"], number>> = {
  memoryLimitMb: 2 ** 24,
  threads: 1024,
  timeoutSeconds: 604_800,
  maxOutputBytes: 2 ** 50,
};

type Members = Readonly<Record<string, CanonicalValue | undefined>>;

/** Reads the member; undefined where it is malformed. */
export function readProgramRecord(value: CanonicalValue | undefined): ProgramRecord | undefined {
  const { bundle, job, limits, machine } = membersOf(value);
  const stated = membersOf(limits);
  const facts = membersOf(machine);
  const names = Object.keys(maxLimits) as (keyof ProgramRecord["limits"])[];
  const areLimits = names.every((name) => isWithin(stated[name], maxLimits[name]));
  const areFacts = (["os", "arch", "cpu", "libc"] as const).every((name) => isFact(facts[name]));
  const { interpreter } = facts;
  const { libraries: listed, randomness } = membersOf(value);
  const libraries = listed === undefined ? undefined : readLibraries(listed);
  if (listed !== undefined && libraries === undefined) return undefined;
  if (randomness !== undefined && !isHash(randomness)) return undefined;
  if (!isHash(bundle) || !isHash(job) || !areLimits || !areFacts) return undefined;
  if (interpreter !== undefined && !isHash(interpreter)) return undefined;
  return {
    bundle,
    job,
    limits: Object.fromEntries(names.map((name) => [name, Number(stated[name])])) as ProgramRecord["limits"],
    machine: facts as unknown as MachineFacts,
    ...defined({ libraries, randomness }),
  };
}

function isWithin(value: CanonicalValue | undefined, max: number): boolean {
  return typeof value === "number" && value > 0 && value <= max;
}

function isFact(value: CanonicalValue | undefined): boolean {
  return typeof value === "string" && value.length <= maxFact;
}

function membersOf(value: CanonicalValue | undefined): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

/** Reads what decides the bits of a program here, beside the program. */
export function machineFacts(interpreter: string | undefined): MachineFacts {
  // Else the names of all peers are asked for.
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = process.report.getReport() as {
    readonly header?: { readonly glibcVersionRuntime?: string };
  };
  return {
    os: systemName(),
    arch: arch(),
    cpu: (cpus()[0]?.model.trim() ?? "unknown").slice(0, maxFact),
    libc: header?.glibcVersionRuntime ?? "",
    ...(interpreter === undefined ? {} : { interpreter }),
  };
}

/** Names of the facts in which two machines differ. */
export function differingFacts(a: MachineFacts, b: MachineFacts): readonly string[] {
  return (["os", "arch", "cpu", "libc", "interpreter"] as const).filter((name) => a[name] !== b[name]);
}
