/** Operations on rollouts: a version goes to a selection of devices, in waves, as long as it is not worse there. */
import * as z from "zod";
import { askedOf, policyMembers, wholePolicy } from "../../../../shared/journal/facts/rollout-policy.js";
import {
  count,
  fleetParams,
  fleetPath,
  force,
  hash,
  modelText,
  reasonText,
  selectionText,
  shortText,
  timeMs,
} from "../fields.js";
import { call, type ValueOf } from "../operation.js";

const text = z.string();

const counts = z.object({
  undecided: count.describe("In a wave, not judged yet"),
  passed: count.describe("Not shown to be worse there: the device switches"),
  switched: count.describe("Those of the passed that ran the version since"),
  replaced: count
    .exactOptional()
    .describe("Those of the switched that were given another version or enrolled again since; absent: none"),
  missed: count
    .exactOptional()
    .describe(
      "Those of the passed that were given another version, enrolled again or no longer served before they ran this one; absent: none",
    ),
  kept: count.describe("Their own model is better on their samples"),
  worse: count,
  failed: count,
  left: count.describe("Revoked, or given another model meanwhile"),
  unknown: count.describe("Their software did not tell of as many live inputs as were asked for"),
});

const rolloutMembers = {
  name: text,
  line: text,
  versionId: hash,
  model: text.describe("name:version"),
  select: text,
  policy: wholePolicy,
  phase: z.enum(["created", "running", "paused", "aborted", "undone", "done"]),
  because: text.describe("Why it is in this phase"),
  phaseAtMs: timeMs,
  createdAtMs: timeMs,
  createdBy: text.exactOptional(),
  approvedBy: text.exactOptional(),
  supersedes: text.exactOptional().describe("The rollout that it ends when it starts"),
  wave: count.describe("The newest wave, from 1; 0: none yet"),
  devices: counts,
  evidence: z
    .number()
    .describe("By all comparisons together, that it is worse: natural logarithm; at log(2 / level) it stops"),
};
const excluded = z
  .array(z.object({ device: text, because: text }))
  .describe("Selected devices that cannot take part now, and are not in it");
const rolloutSummary = z.object(rolloutMembers).meta({ id: "RolloutSummary" });
export type RolloutAnswer = ValueOf<typeof rolloutSummary>;

const rolloutCreated = z.object({ ...rolloutMembers, excluded }).meta({ id: "CreatedRollout" });
export type CreatedRolloutAnswer = ValueOf<typeof rolloutCreated>;

const comparedLosses = z.object({
  samples: count,
  meanDifference: z.number().describe("Of the losses: the version's less those of what the device ran"),
  standardError: z.number(),
});

const rolloutDevice = z.object({
  device: text,
  wave: count,
  joinedAtMs: timeMs,
  online: z.boolean(),
  verdict: z
    .enum(["passed", "kept", "worse", "failed", "left", "unknown"])
    .nullable()
    .describe("Null: not judged yet"),
  because: text.describe("Of the verdict; without one, what it waits for"),
  judgedAtMs: timeMs.exactOptional(),
  switched: z.boolean().describe("Whether it ran the version since it passed"),
  givenOther: z
    .literal(true)
    .exactOptional()
    .describe(
      "It was given another version or enrolled again since it passed, or is no longer served and did not switch; absent: none of these",
    ),
  before: text.nullable().describe("What it ran when it was judged, as name:version"),
  compared: comparedLosses.exactOptional(),
  trial: z
    .object({
      slowdown: z.number().exactOptional().describe("Median time of one sample, as a multiple"),
      moreBytes: z.number().exactOptional().describe("Of memory; negative: less"),
      change: z
        .number()
        .exactOptional()
        .describe("Share of samples with another class, or mean difference of the outputs"),
    })
    .exactOptional()
    .describe("The version beside what the device ran"),
  live: z
    .object({
      inputs: count.describe("On which both were compared"),
      failed: count.describe("On which only the version failed"),
      compared: comparedLosses.exactOptional(),
      slowdown: z.number().exactOptional(),
      change: z.number().exactOptional(),
    })
    .exactOptional()
    .describe("What its software told of its live inputs"),
});
const rolloutDetail = z
  .object({
    ...rolloutMembers,
    members: z.array(rolloutDevice).describe("In the order in which they joined"),
    excluded: excluded.exactOptional().describe("Where it was asked for"),
  })
  .meta({ id: "RolloutDetail" });
export type RolloutDetailAnswer = ValueOf<typeof rolloutDetail>;

const rolloutPlan = z
  .object({
    name: text,
    model: text,
    versionId: hash,
    line: text,
    policy: wholePolicy,
    waves: z.array(z.array(text)).describe("The devices of each wave, as the selection means them now"),
    notReached: count.describe("Devices that can take part and are in no wave"),
    excluded,
    goingBack: count.describe("Devices of the waves that run a version which others trained from this one"),
    gates: z
      .array(
        z.object({
          device: text,
          measuredBy: z
            .enum(["engine", "program", "nothing"])
            .exactOptional()
            .describe("What measures the line's models there; absent: its agent does not tell"),
          losses: text.describe("Whether it can tell which model is better by labels: empty, or why not"),
          outputs: text.describe("The same of the change of the outputs, of time and of memory"),
          live: text.describe("The same of a trial on live inputs, in which its software takes part"),
        }),
      )
      .describe("Which gates connected devices can answer, of the first 200 asked"),
    deferring: z
      .array(z.object({ device: text, because: text }))
      .describe("Connected devices that would wait for external power or a link, of the first 200 asked"),
    takes: z
      .array(z.object({ device: text, rollout: text }))
      .describe("Devices that it takes before another open rollout of the line, which goes first no more"),
    noModel: count.describe("Devices that run nothing: they switch without a comparison"),
    offline: count,
    refusing: z
      .array(text)
      .describe(
        "Devices, of those connected now, that demand a release: the version has none, or it was revoked",
      ),
    doubts: z
      .array(text)
      .exactOptional()
      .describe(
        "Why it would be refused without force: a line near to a known one, a model of another shape",
      ),
    bytes: count.describe("Of the version's tensors: what a device fetches that has none of them"),
    storageBytes: count.describe("That each device needs free: the version is stored and installed"),
    transfers: z
      .array(
        z.object({
          device: text,
          wave: count,
          bytes: count.describe("The tensors that it lacks, coded against what it has"),
          isEstimated: z
            .boolean()
            .describe("By the share of other devices, since too many have something else"),
          metered: z.boolean().describe("Whether its profile calls the link metered"),
          ms: count
            .nullable()
            .describe("By earlier transfers to it, or to others of its profile; null: none"),
        }),
      )
      .exactOptional()
      .describe("Device by device; only of a running server"),
    fleetBytesPerSecond: count
      .exactOptional()
      .describe("That all devices of the fleet are sent at most, by server.json; absent: no limit"),
    expectedMs: count
      .nullable()
      .exactOptional()
      .describe(
        "Transfers and soak times of all waves, for devices that are connected; null: not known. No plan knows which " +
          "devices will be away, nor how fast their processors compare",
      ),
  })
  .meta({ id: "RolloutPlan" });
export type RolloutPlanAnswer = ValueOf<typeof rolloutPlan>;

const rolloutReport = z
  .object({
    name: text,
    phase: z.enum(["created", "running", "paused", "aborted", "undone", "done"]),
    devices: z.array(
      z.object({
        device: text,
        wave: count,
        planned: z.object({ bytes: count, ms: count.nullable() }).exactOptional(),
        actual: z
          .object({
            bytes: count.describe("Of all blocks, also those that were sent again"),
            ms: count.describe("In which they were sent"),
            atMs: timeMs,
          })
          .exactOptional()
          .describe("Absent: nothing was sent, or not all yet"),
        decidedMs: count.exactOptional().describe("From joining to the verdict"),
      }),
    ),
    compared: count.describe("Devices with both"),
    plannedBytes: count.describe("Of those"),
    actualBytes: count,
    bytesError: z
      .number()
      .nullable()
      .describe("Median of |planned - actual| / actual; null: nothing to compare"),
    timeError: z.number().nullable(),
    excluded,
  })
  .meta({ id: "RolloutTransfers" });
export type RolloutReportAnswer = ValueOf<typeof rolloutReport>;

const rolloutsPath = `${fleetPath}/rollouts`;
const rolloutName = shortText.describe("Name of the rollout");
const rolloutParams = { ...fleetParams, rollout: rolloutName };
const rolloutBody = {
  name: rolloutName,
  model: modelText,
  line: shortText.describe("The line of the devices that gets the version"),
  select: selectionText,
  supersedes: shortText.optional().describe("The rollout of the line that it ends when it starts"),
  policy: z.object(askedOf(policyMembers)).partial().optional().describe("What is absent has its default"),
};

export const rolloutOperations = {
  rollouts: call({
    summary: "The rollouts of a fleet, newest first",
    method: "GET",
    path: rolloutsPath,
    right: "read",
    params: fleetParams,
    output: z.array(rolloutSummary),
  }),
  rollout: call({
    summary: "How far a rollout is, device by device",
    method: "GET",
    path: `${rolloutsPath}/:rollout`,
    right: "read",
    params: rolloutParams,
    query: { excluded: z.boolean().optional().describe("Also who cannot take part, and why") },
    output: rolloutDetail,
  }),
  rolloutReport: call({
    summary: "What the transfers of a rollout took, beside what was planned",
    method: "GET",
    path: `${rolloutsPath}/:rollout/report`,
    right: "read",
    params: rolloutParams,
    output: rolloutReport,
  }),
  planRollout: call({
    summary: "Which devices a rollout would reach, and in which waves; changes nothing",
    method: "POST",
    path: `${rolloutsPath}/plan`,
    right: "read",
    params: fleetParams,
    body: rolloutBody,
    output: rolloutPlan,
  }),
  createRollout: call({
    summary: "Create a rollout; it starts when it is started. One that reaches no device now is refused",
    method: "POST",
    path: rolloutsPath,
    right: "roll-out",
    params: fleetParams,
    body: { ...rolloutBody, force, start: z.boolean().optional().describe("Start it at once") },
    output: rolloutCreated,
  }),
  approveRollout: call({
    summary: "Approve a rollout that another person created and that waits for it",
    method: "POST",
    path: `${rolloutsPath}/:rollout/approval`,
    right: "roll-out",
    params: rolloutParams,
    body: { because: reasonText.optional() },
    output: rolloutSummary,
  }),
  setRollout: call({
    summary: "Start, pause, continue or abort a rollout; devices that switched keep the version",
    method: "POST",
    path: `${rolloutsPath}/:rollout/phase`,
    right: "roll-out",
    params: rolloutParams,
    body: { phase: z.enum(["running", "paused", "aborted"]), because: reasonText.optional() },
    output: rolloutSummary,
  }),
  undoRollout: call({
    summary: "End a rollout and return every device that it switched to what it ran before",
    method: "POST",
    path: `${rolloutsPath}/:rollout/undo`,
    right: "roll-out",
    params: rolloutParams,
    body: { because: reasonText.optional(), dryRun: z.boolean().optional() },
    output: z.array(
      z.object({
        device: text,
        to: text.nullable().describe("name:version; null: it ran nothing before and keeps the version"),
      }),
    ),
  }),
};
