/** `stemma storage drop`: keep a model as the story of its making. */
import { formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { DropReport } from "../../../interface/api/stores/drop-schemas.js";
import { plain } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const drop = plain("dropTensors", {
  name: "drop",
  about: "drop tensors that a replay gives again bit for bit; storage gc then frees the space",
  takes: { models: "name, name:version, name:tag or id; absent: all that may be dropped" },
  options: {
    line: "<line>",
    olderThanDays: { text: "<days>", flags: "--older-than <days>" },
    maxMinutes: "<n>",
    because: "<text> why; it is kept with the fact",
    dryRun: "only show what would be dropped",
  },
  help: `
Only versions that this server proved by a replay lose their tensors; one that it has not proved
yet with stored data is replayed first. Engine, data, story and base stay as long as the version;
what would free less than only its replay needs of these is not dropped.
The newest of each line and name, held and tagged versions, and those that devices run or are to
get keep their tensors.

  stemma storage drop --older-than 30 --dry-run
  stemma storage drop --older-than 30 && stemma storage gc
  stemma model recover pack-soh:3 --explain
  stemma model keep pack-soh:3
`,
  run: async ({ models = [], ...choices }, { call, output }) => {
    output.progress("looking at what a replay can give again, and proving what was not proved yet");
    const report = await call("dropTensors", { ...(models.length === 0 ? {} : { models }), ...choices });
    output.endProgress();
    return report;
  },
  print: (report, { dryRun }) => ({
    names: report.dropped.map(({ versionId }) => versionId),
    text: describeDrop(report, dryRun).join("\n"),
  }),
});

export function describeDrop(
  { dropped, kept, keptCount, tensorBytes, freedBytes, keptBytes }: DropReport,
  isDry: boolean,
): readonly string[] {
  const verb = isDry ? "would be dropped" : "dropped";
  return [
    ...dropped.map(
      (version) =>
        `${nameOf(version)}: tensors ${verb}, ${formatBytes(version.tensorBytes)}; frees ` +
        `${formatBytes(version.freedBytes)}, keeps ${formatBytes(version.keptBytes)}; a recovery trains for ` +
        `${formatDuration(version.recoveryMs)}${version.isProved ? "" : ", as predicted: it would be replayed first"}`,
    ),
    ...kept.map((version) => `${nameOf(version)}: tensors stay, because ${version.because}`),
    dropped.length === 0
      ? `nothing ${verb}; ${counted(keptCount, "version keeps its", "versions keep their")} tensors`
      : `${dropped.length} ${verb}, ${formatBytes(tensorBytes)}; ${counted(keptCount, "other keeps its", "others keep their")} tensors. ` +
        `stemma storage gc ${isDry ? "would then free" : "then frees"} ${formatBytes(freedBytes)}; ` +
        `${formatBytes(keptBytes)} stay for the replays alone.${isDry ? " Nothing was changed." : ""}`,
  ];
}

export const commands = [drop];
