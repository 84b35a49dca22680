/**
 * Finds the engines that can replay a version: the one that its record names, and those that proved it since.
 * Its last one here is needed; of several, each may go.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RepositoryContext } from "./context.js";
import type { VersionState } from "./state/version-state.js";

type EngineContext = Pick<RepositoryContext, "objects" | "records" | "state">;

/** Archives that are stored and may be run, of a version. */
function enginesFor({ objects, records, state }: EngineContext, version: VersionState): readonly Hash[] {
  const named = records.get(version.versionId)?.uses?.engine;
  return [...state.engines.values()]
    .filter(({ engine, engineId }) => engine === named || version.provedBy?.has(engineId) === true)
    .map(({ engine }) => engine)
    .filter((engine) => objects.has(engine));
}

/** Engine → number of kept versions that no other engine here can replay, or that are recovered by its replays. */
export function usesOfEngines(context: EngineContext): ReadonlyMap<Hash, number> {
  const { records, state } = context;
  const uses = new Map<Hash, number>();
  for (const version of state.versions.values()) {
    const named = records.get(version.versionId)?.uses?.engine;
    if (version.retired === undefined && version.dropped !== undefined) {
      const { engine } = version.dropped;
      uses.set(engine, (uses.get(engine) ?? 0) + 1);
      continue;
    }
    if (named === undefined || version.retired !== undefined) continue;
    // A version has more than one engine only where another engine proved it, so the others need no search.
    const [engine = named, ...others] =
      version.provedBy === undefined ? [named] : enginesFor(context, version);
    if (others.length === 0) uses.set(engine, (uses.get(engine) ?? 0) + 1);
  }
  return uses;
}

/** Stored engines that proved kept versions again: a collection keeps them. */
export function provingEngines({ objects, state }: EngineContext): ReadonlySet<Hash> {
  const proving = new Set<Hash>();
  for (const position of state.replayed.values()) {
    const { provedBy = [], retired } = state.versions.at(position) ?? {};
    if (retired === undefined) for (const engineId of provedBy) proving.add(engineId);
  }
  return new Set(
    [...state.engines.values()]
      .filter(({ engine, engineId }) => proving.has(engineId) && objects.has(engine))
      .map(({ engine }) => engine),
  );
}

/** True if none of the engines that can replay it is here. */
export function lacksEngine(context: EngineContext, version: VersionState): boolean {
  return (
    context.records.get(version.versionId)?.uses?.engine !== undefined &&
    enginesFor(context, version).length === 0
  );
}
