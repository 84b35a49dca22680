/** `stemma replay rebase-engine`: proves versions on a newer engine, so that the one that trained them may go. */
import { StemmaError } from "../../../../shared/errors.js";
import type { ReplayReport } from "../../../interface/api/models/evaluation-schemas.js";
import { plain, type PlainContext } from "../../plain-command.js";
import { describeReplay } from "../../replay-text.js";
import { nameOf } from "../../version-text.js";

/** @throws USAGE, NOT_FOUND, REPLAY_INCOMPLETE where the other engine does not give the same bytes */
const rebase = plain("rebaseEngine", {
  name: "rebase-engine",
  about: "prove versions on another engine than the one that trained them",
  takes: { models: "[models...] name, name:version, name:tag or id" },
  options: {
    from: "<id> instead: all versions that only this engine can replay (at least 8 digits)",
    engine: "<id> the approved engine to prove them on; default: the one of this server's build",
    maxMinutes: "<n>",
  },
  help: `
Versions are replayed with the engine of this server's build, or with --engine ID. Where that
gives the very same bytes, the version is proved by both: stemma replay run takes either, and
stemma replay engine rm removes the old one once no version needs it. Where it gives others,
nothing is refuted: the version keeps its engine. Its tensors are kept, so it is recovered,
trained on and served without any engine. A version without tensors (storage drop) keeps the
engine that recovers it: store them again first (model keep).

  stemma replay engine list
  stemma replay rebase-engine --from 81ff961a66be
  stemma replay engine rm 81ff961a66be

What is proved stays proved if the command is stopped; run it again to go on.
`,
  run: async ({ models, from, ...asked }, context) => {
    const { call, output } = context;
    if ((from === undefined) === (models.length === 0))
      throw new StemmaError("USAGE", "Name models, or an engine with --from ID: one of the two.");
    const wanted = from === undefined ? models : await versionsOfEngine(from, context);
    const reports: ReplayReport[] = [];
    for (const model of wanted) {
      output.progress(`replaying ${model}, ${reports.length + 1} of ${wanted.length}`);
      reports.push(await call("rebaseEngine", { model, ...asked }));
    }
    output.endProgress();
    output.print({
      data: reports,
      names: reports.map(({ versionId }) => versionId),
      text: reports.length === 0 ? "no version needs this engine" : reports.map(describeRebased).join("\n"),
    });
    const left = reports.filter(({ verdict }) => verdict !== "proved");
    if (left.length > 0)
      throw new StemmaError(
        "REPLAY_INCOMPLETE",
        `Not proved on the other engine: ${left.map(nameOf).join(", ")}. The reasons are above. Keep the engine that ` +
          "trained them, or do without replaying them: their tensors are kept.",
      );
  },
});

function describeRebased(report: ReplayReport): string {
  const text = describeReplay(report);
  return report.verdict === "proved"
    ? `${text}\n  by the engine ${report.engineId?.slice(0, 12) ?? ""}`
    : text;
}

/**
 * Kept versions that name the engine and that no other engine here proved, oldest first. The engine itself need not be
 * here.
 * @throws USAGE
 */
async function versionsOfEngine(from: string, { call }: PlainContext): Promise<readonly string[]> {
  if (!/^[0-9a-f]{8,64}$/.test(from))
    throw new StemmaError(
      "USAGE",
      "--from takes an engine's id, or at least 8 digits of it. `stemma replay engine list` and `storage check` " +
        "show them.",
    );
  const engines = await call("engines");
  const archives = new Set<string>(
    engines.flatMap(({ engine, engineId }) => (engineId.startsWith(from) ? engine : [])),
  );
  const isOld = (archive: string | undefined): boolean =>
    archive !== undefined && (archive.startsWith(from) || archives.has(archive));
  const others = new Set<string>(
    engines.flatMap(({ engine, engineId, isStored }) => (isStored && !isOld(engine) ? engineId : [])),
  );
  return (await call("models"))
    .filter(
      ({ record, provedBy = [] }) => isOld(record.uses?.engine) && !provedBy.some((id) => others.has(id)),
    )
    .map(({ versionId }) => versionId);
}

export const commands = [rebase];
