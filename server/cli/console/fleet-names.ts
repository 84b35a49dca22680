/** Names of the fleet that the console completes: devices, models, rollouts. Asked of a running server alone. */
import type { Command } from "commander";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { connectIfRunning, type GlobalOptions } from "../context.js";

type NameKind = "devices" | "models" | "rollouts";

/** The time for which names are offered again without a question; milliseconds. */
const keptMs = 10_000;
/** The longest wait for names while somebody types, in milliseconds. */
const maxWaitMs = 1500;
/** Newest versions of which the names are offered, and devices. */
const maxAsked = 2000;

/** The kind of name that an argument or option takes; undefined where it takes another value. */
export function nameKindOf({
  command,
  name,
}: {
  readonly command: Command;
  readonly name: string;
}): NameKind | undefined {
  if (name === "device" || name === "--device") return "devices";
  if (["model", "models", "a", "b", "successor"].includes(name)) return "models";
  if (name === "name" && command.parent?.name() === "rollout" && command.name() !== "create")
    return "rollouts";
  return undefined;
}

const askers: Readonly<
  Record<NameKind, (operations: ServerOperations, fleet: string) => Promise<readonly string[]>>
> = {
  devices: async (operations, fleet) =>
    (await operations.devices({ fleet, limit: maxAsked })).map(({ device }) => device),
  models: async (operations, fleet) =>
    (await operations.listModels({ fleet, limit: maxAsked })).versions.map(({ name }) => name),
  rollouts: async (operations, fleet) => (await operations.rollouts({ fleet })).map(({ name }) => name),
};

export type FleetNames = (kind: NameKind) => Promise<readonly string[]>;

/** None where no server answers in time: a completion never reports an error. */
export function fleetNames(options: GlobalOptions, nowMs: () => number): FleetNames {
  const known = new Map<NameKind, { readonly atMs: number; readonly names: readonly string[] }>();
  const ask = async (kind: NameKind): Promise<readonly string[]> => {
    const operations = await connectIfRunning(options);
    if (operations === undefined) return [];
    try {
      return [...new Set(await askers[kind](operations, options.fleet))].sort();
    } finally {
      await operations.close();
    }
  };
  return async (kind) => {
    const last = known.get(kind);
    if (last !== undefined && nowMs() - last.atMs < keptMs) return last.names;
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<readonly string[]>((resolve) => {
      timer = setTimeout(() => {
        resolve([]);
      }, maxWaitMs);
    });
    const asked = ask(kind).catch((): readonly string[] => []);
    void asked.then((names) => known.set(kind, { atMs: nowMs(), names }));
    const names = await Promise.race([asked, tooLate]);
    clearTimeout(timer);
    return names;
  };
}
