/** `stemma model recover --explain`: from what a model would be recovered, as text for people. */
import { formatBytes, formatDuration } from "../../shared/cli/output.js";
import { counted } from "../../shared/printable.js";
import { StemmaError } from "../../shared/errors.js";
import type { RecoveryExplanation } from "../interface/api/models/recovery-schemas.js";
import type { CommandContext } from "./context.js";
import { nameOf } from "./version-text.js";

/** @throws USAGE without a model */
export async function explainCommand(
  model: string | undefined,
  { operations, options: { fleet }, output }: CommandContext,
): Promise<void> {
  if (model === undefined)
    throw new StemmaError("USAGE", "--explain is for one model: stemma model recover MODEL --explain");
  const explained = await (await operations()).explainRecovery({ fleet, model });
  output.print({ data: explained, names: [explained.versionId], text: describe(explained).join("\n") });
}

function describe(explained: RecoveryExplanation): readonly string[] {
  const { missing, readBytes, byteLength, predictedMs, owners, inTier, replay, trainings } = explained;
  return [
    `${nameOf(explained)}: ${sourceText(explained)}`,
    ...trainings.map(
      (training) =>
        `  trains ${nameOf(training)} again by the engine ${training.engineId.slice(0, 12)}, about ` +
        formatDuration(training.ms),
    ),
    `  reads ${formatBytes(readBytes)} for ${formatBytes(byteLength)}, tensors of ${counted(owners, "version")}`,
    ...(inTier === 0 ? [] : [`  low-order bytes of ${counted(inTier, "tensor")} are in a tier`]),
    missing.length === 0
      ? `  about ${formatDuration(predictedMs)} on one core by the measured rates of this machine, ` +
        "once the codec is loaded"
      : `  missing: ${missing.join(", ")}`,
    `  ${replayText(replay)}`,
  ];
}

function sourceText({ from, tensors, raw, coded, references, deepest }: RecoveryExplanation): string {
  if (from === "nothing") return "cannot be recovered, because tensors are missing; run storage check";
  if (from === "replay")
    return "its tensors were dropped; recovered by a replay, and compared with the record";
  if (from === "snapshot")
    return `recovered from ${counted(tensors, "tensor that is stored as it is", "tensors that are stored as they are")}`;
  const others = references === 0 ? "" : ` and ${references} others that they are coded against`;
  return (
    `recovered from ${counted(raw, "tensor that is stored as it is", "tensors that are stored as they are")}, ${coded} coded${others}, ` +
    `at most ${deepest} one after the other`
  );
}

function replayText({ isPossible, because, predictedMs, verdict }: RecoveryExplanation["replay"]): string {
  const proved = verdict === null ? "not replayed yet" : verdict;
  if (!isPossible) return `training it again is not possible here: ${because}`;
  const time = predictedMs === null ? "an unknown time" : `about ${formatDuration(predictedMs)}`;
  return `training it again would take ${time} (${proved}), where its data are still here: stemma replay run`;
}
