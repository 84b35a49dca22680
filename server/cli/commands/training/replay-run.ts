/** `stemma replay run`: trains versions once more from their provenance, and compares them bit for bit. */
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { ReplayReport } from "../../../interface/api/models/evaluation-schemas.js";
import {
  changedReplayBody,
  maxMinutes,
  replayPriority,
  type ReplayJob,
} from "../../../interface/api/models/replay-schemas.js";
import { readBy } from "../../input-option.js";
import { locationOf } from "../../data-location.js";
import { readReplayFile, type ReplayFile } from "../../replay-file.js";
import { describeReplay } from "../../replay-text.js";
import { plain, repeated, type Choices, type PlainContext } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const runOptions = {
  detach: "queue them on the server, and do not wait",
  priority: { text: `<n> ${replayPriority.description ?? ""}`, read: readBy("--priority", replayPriority) },
  maxMinutes: { text: `<n> ${maxMinutes.description ?? ""}`, read: readBy("--max-minutes", maxMinutes) },
  set: repeated("<key=value> replay with this parameter changed, into a new version (repeatable)"),
  data: {
    text: "<location> of a file's story: its data on the server's machine, or their URL; else those that are known here",
    read: locationOf,
  },
  name: {
    text: "<name> with --set: name of the new model",
    read: readBy("--name", changedReplayBody.name),
  },
} as const;
type RunChoices = Choices<unknown, unknown, typeof runOptions>;

const run = plain(null, {
  name: "run",
  about: "train versions once more from their provenance and compare them bit for bit",
  takes: { models: "<models...> name, name:version, name:tag or id; or an exported file" },
  options: runOptions,
  help: `
The engine that the version names trains again on this machine, from the same base, data,
parameters and random numbers. The verdict is kept with the version (stemma model show):

  proved        every tensor, and all that the replay makes again, is as recorded; what is
                only stated is listed
  refuted       the story gives other bytes, or other values than it states
  unreplayable  not here, with the reason: data or engine missing, redacted, another trainer

The command ends with status 4 where a version is refuted, and with 5 where one is
unreplayable. Ctrl-C ends the replay; nothing of it is kept.

  stemma replay run pack-soh:3
  stemma replay run pack-soh:1 pack-soh:2 -o json

--detach does not wait: the server replays them one after the other, also after a restart
(stemma replay list, show, cancel).

  stemma replay run pack-soh:1 pack-soh:2 --detach

A replay that would take longer than --max-minutes (default: limits.training.maxMinutes in
server.json), as predicted, is not begun; one that does is ended.

--set replays a changed story: the same engine, base, data and random numbers with other
parameters. The result is a new version, whose record tells from which one and what was
changed (stemma model show, stemma model diff).

  stemma replay run pack-soh:3 --set trainer.epochs=15 --name pack-soh-longer

A file that Stemma exported (stemma model recover --file), or a record alone (stemma model
story), is replayed without the model being known here, also in a home that is not there yet;
data, base and engine must be. What is missing is named. Nothing is kept of it, unless --set
makes a new version.

  stemma replay run soh.safetensors
  stemma replay run soh.story.json --data ./cells.csv
`,
  run: ({ models, ...choices }, context) =>
    choices.set.length > 0 || choices.name !== undefined
      ? changedCommand(models, choices, context)
      : choices.detach
        ? queueCommand(models, choices, context)
        : runCommand(models, choices, context),
});

/** @throws USAGE where it is not of one model, or the name or what is to be changed is missing */
async function changedCommand(
  models: readonly string[],
  { set, name, detach, maxMinutes, data }: RunChoices,
  { call, output }: PlainContext,
): Promise<void> {
  const [model] = models;
  if (model === undefined || models.length > 1 || set.length === 0 || name === undefined || detach)
    throw new StemmaError(
      "USAGE",
      "A changed replay is of one model, and its result needs a name: stemma replay run MODEL --set " +
        "trainer.epochs=15 --name NAME. --detach does not go with it.",
    );
  output.progress(`replaying ${model}`);
  const file = await fileOf(model, data);
  const change = { name, set: parseAssignments(set), maxMinutes };
  const report =
    file === undefined
      ? await call("replayChanged", { model, ...change })
      : await call("replayChangedStory", { story: file.story, data, ...change });
  output.endProgress();
  const { summary, changes, of } = report;
  const changed = changes.map(({ parameter, before, after }) => `${parameter}: ${before} → ${after}`);
  output.print({
    data: report,
    names: [summary.versionId],
    text:
      `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}), trained like ` +
      `${titleOf(of, model)} but with ${changed.join(", ")}.` +
      (file === undefined ? ` Compare them: stemma model diff ${nameOf(of)} ${nameOf(summary)}` : ""),
  });
}

async function runCommand(
  models: readonly string[],
  { maxMinutes, data }: RunChoices,
  { call, output }: PlainContext,
): Promise<void> {
  const reports: ReplayReport[] = [];
  for (const model of models) {
    output.progress(`replaying ${model}`);
    const file = await fileOf(model, data);
    reports.push(
      file === undefined
        ? await call("replay", { model, maxMinutes })
        : await call("replayStory", { ...file, data, maxMinutes }),
    );
  }
  output.endProgress();
  output.print({
    data: reports,
    names: reports.map(({ versionId }) => versionId),
    text: output.wrap(
      reports.flatMap((report, i) => describeReplay(report, titleOf(report, models[i] ?? "")).split("\n")),
    ),
  });
  endWith(reports.map((report, i) => ({ ...report, title: titleOf(report, models[i] ?? "") })));
}

/** @throws USAGE where data are named of a model that is known here, which has its own */
async function fileOf(argument: string, data: string | undefined): Promise<ReplayFile | undefined> {
  const file = await readReplayFile(argument);
  if (file === undefined && data !== undefined)
    throw new StemmaError(
      "USAGE",
      `--data goes with a file, and ${argument} names a model. Its data are found by their registered name.`,
    );
  return file;
}

/** A version of a file need not be known here, so it has no number. */
function titleOf(report: Pick<ReplayReport, "versionId" | "name" | "version">, argument: string): string {
  return report.version === 0
    ? `${argument} (${report.name}, ${report.versionId.slice(0, 12)})`
    : nameOf(report);
}

/** @throws REPLAY_REFUTED, REPLAY_INCOMPLETE */
function endWith(reports: readonly (ReplayReport & { readonly title: string })[]): void {
  const refuted = reports.filter(({ verdict }) => verdict === "refuted");
  if (refuted.length > 0)
    throw new StemmaError(
      "REPLAY_REFUTED",
      `Refuted: ${refuted.map(({ title }) => title).join(", ")}. Do not trust how these say that they were made; compare their ` +
        "provenance with what the device or its owner knows.",
    );
  const missing = reports.filter(({ verdict }) => verdict === "unreplayable");
  if (missing.length > 0)
    throw new StemmaError(
      "REPLAY_INCOMPLETE",
      `Not replayable here: ${missing.map(({ title }) => title).join(", ")}. The reasons are above.`,
    );
}

async function queueCommand(
  models: readonly string[],
  { priority, maxMinutes, data }: RunChoices,
  { call, output }: PlainContext,
): Promise<void> {
  const jobs: ReplayJob[] = [];
  for (const model of models)
    if ((await fileOf(model, data)) !== undefined)
      throw new StemmaError(
        "USAGE",
        `--detach takes models that are known here. Replay ${model} without it.`,
      );
  for (const model of models) jobs.push(await call("queueReplay", { model, priority, maxMinutes }));
  output.print({
    data: jobs,
    names: jobs.map(({ versionId }) => versionId),
    text: `queued ${jobs.map(nameOf).join(", ")}; how it goes: stemma replay list`,
  });
}

export const commands = [run];
