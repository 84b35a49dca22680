/**
 * Training engines in a fleet's store. Engines are code, so they come from this server's own build or from a person
 * who approves one, never from a device. A version names its engine whether or not it is here.
 */
import { StemmaError } from "../../../shared/errors.js";
import { notThere } from "../../../shared/missing-errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { decodeEngineArchive, engineObjectId } from "../../../shared/train/engine-archive.js";
import type { RepositoryContext } from "./context.js";
import { usesOfEngines } from "./engine-needs.js";
import type { EngineSummary } from "./answers/code-answers.js";
import type { EngineState } from "./state/state.js";
import { counted } from "../../../shared/printable.js";

/** The reason why an engine is stored. */
export interface EngineApproval {
  readonly source: EngineState["source"];
  readonly because: string;
}

/**
 * Stores an engine and states that it may be run here. One that may be already stays as it is, but an approval
 * replaces the statement that it came from a build: it then stays until it is removed.
 * @throws ENGINE_INVALID
 */
export async function storeEngine(
  context: RepositoryContext,
  archive: Uint8Array,
  { source, because }: EngineApproval,
): Promise<EngineSummary> {
  const { engine: engineId } = decodeEngineArchive(archive);
  const engine = engineObjectId(archive);
  const isKnown = (): boolean => {
    const known = context.state.engines.get(engine);
    return known !== undefined && (known.source === source || source === "build");
  };
  if (!isKnown() || !context.objects.has(engine)) {
    await putEngine(context, archive, engine);
    await context.queue.submit({
      requiredObjects: [engine],
      decide: () =>
        isKnown()
          ? []
          : [{ type: "engine-approved", atMs: context.clock.now(), engine, engineId, source, because }],
    });
  }
  return requireEngineSummary(context, engine);
}

async function putEngine({ objects }: RepositoryContext, archive: Uint8Array, engine: Hash): Promise<void> {
  const pack = await objects.begin();
  try {
    await pack.putStream("engine", { chunks: () => chunksOf(archive) }, engine);
    await pack.commit();
  } catch (error) {
    await pack.abort();
    throw error;
  }
}

// eslint-disable-next-line @typescript-eslint/require-await -- a stream of one piece
async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  const chunkBytes = 1024 * 1024;
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

/**
 * States that an engine may not be run here any more; the next collection frees it.
 * @throws NOT_FOUND, ENGINE_IN_USE where no other engine here can replay a kept version
 */
export async function removeEngine(context: RepositoryContext, engine: Hash, because: string): Promise<void> {
  await context.queue.submit({
    requiredObjects: [],
    // Decided alone, so that it sees every version that is recorded before it.
    isExclusive: true,
    decide: () => {
      const { versions } = requireEngineSummary(context, engine);
      if (versions > 0)
        throw new StemmaError(
          "ENGINE_IN_USE",
          `${counted(versions, "version that is kept was", "versions that are kept were")} trained by the engine ${engine.slice(0, 12)}, and ` +
            "only it can replay them. Prove them on a newer one with stemma replay rebase-engine --from " +
            `${engine.slice(0, 12)}, or retire them, or keep it.`,
          { engine, versions },
        );
      return [{ type: "engine-removed", atMs: context.clock.now(), engine, because }];
    },
  });
}

/** The engines that may be run here, oldest first. */
export function engineSummaries(context: RepositoryContext): readonly EngineSummary[] {
  const uses = usesOfEngines(context);
  return [...context.state.engines.values()].map((engine) => ({
    ...engine,
    versions: uses.get(engine.engine) ?? 0,
    isStored: context.objects.has(engine.engine),
  }));
}

function requireEngineSummary(context: RepositoryContext, engine: Hash): EngineSummary {
  const found = engineSummaries(context).find((each) => each.engine === engine);
  if (found !== undefined) return found;
  throw notThere(
    "NOT_FOUND",
    `The fleet ${context.fleet} has no engine ${engine.slice(0, 12)}`,
    "replay engine list",
    { engine },
  );
}
