/** Decides which gates of a rollout this device can answer for a line, before a version is there to be measured. */
import { parseTargets } from "../../shared/train/datasets/target-form.js";
import type { GateAnswers, MeasuredBy } from "../../shared/wire/gate-answers.js";
import type { IntakeStatus } from "../intake/intake-answers.js";
import type { Activator } from "../lines/activator.js";
import type { Outbox } from "../outbox/outbox.js";
import type { LineConfig } from "../settings/config.js";
import { isOwnSamples } from "./training-job.js";

export interface GateSubject {
  readonly settings: LineConfig | undefined;
  readonly outbox: Pick<Outbox, "record" | "entry">;
  readonly activator: Pick<Activator, "base">;
  readonly samples: Pick<IntakeStatus, "heldOut"> | undefined;
  /** The reason why its software takes no part in trials on live inputs; empty: it does. */
  readonly live: string;
}

const programsOutputs =
  "its program tells a change only where it leaves predictions, and never time or memory";

export async function answerableGates(
  line: string,
  { settings, outbox, activator, samples, live }: GateSubject,
): Promise<GateAnswers> {
  const runs = activator.base(line)?.versionId;
  const measuredBy: MeasuredBy = settings?.measure === undefined ? "engine" : "program";
  const neither = (because: string): GateAnswers => ({
    losses: because,
    outputs: because,
    live,
    measuredBy: "nothing",
  });
  // Without the entry its record was deleted here.
  if (runs === undefined || outbox.entry(runs) === undefined) {
    const because = "it runs nothing that a version could be compared with";
    return { losses: because, outputs: because, live: because, measuredBy };
  }
  if (measuredBy === "engine" && (await outbox.record(runs)).record.kind === "opaque")
    return neither("its model has no architecture, and no program of its own measures it");
  if (isOwnSamples(settings?.dataset) && (samples?.heldOut ?? 0) === 0)
    return neither("it has no held-out samples");
  if (measuredBy === "program") return { losses: "", outputs: programsOutputs, live, measuredBy };
  const targets = settings?.dataset?.parameters["targets"];
  const several =
    targets !== undefined &&
    parseTargets(typeof targets === "object" ? targets : String(targets).split(",")).length > 1;
  return { losses: several ? "its samples have several targets" : "", outputs: "", live, measuredBy };
}
