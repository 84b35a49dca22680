/** Answers about devices and fleets, and the input of an enrolment. */
import * as z from "zod";
import type { Enrolment } from "../../../../shared/trust/enrolment.js";
import { certificateAnswerSchema } from "../../../../shared/trust/certificates/certificate-exchange.js";
import { keyChangesSchema } from "../../../../shared/trust/key-change.js";
import { invitationSchema } from "../../../../shared/trust/certificates/invitation.js";
import type { DeviceSummary } from "../../../storage/repository/answers/device-answers.js";
import { settingsSummary } from "./device-upkeep-schemas.js";
import { count, ended, force, hash, shortText, timeMs } from "../fields.js";

const text = z.string();

const deviceMembers = {
  device: text,
  profile: text,
  lines: z.array(text).describe("Lines of models on this device"),
  generation: count.describe("Counts the enrolments of this name, from 1; sessions count within it"),
  enrolledAtMs: timeMs,
  enrolledBy: text.exactOptional().describe("The caller that enrolled this generation"),
  revoked: ended.exactOptional(),
  quarantined: ended.exactOptional().describe("Not served for now, which a person can take back"),
  batch: text.exactOptional().describe("The batch with whose invitation it enrolled"),
  waits: z.literal(true).exactOptional().describe("It is quarantined until a person accepts it"),
  removed: ended.exactOptional(),
  erased: ended.exactOptional().describe("When what it had given was erased, the last time"),
  settings: settingsSummary.exactOptional().describe("Absent: nobody has set anything on it"),
  assigned: z
    .record(
      text,
      z.object({
        versionId: hash,
        atMs: timeMs,
        rollout: text.exactOptional().describe("The rollout that assigned it, or took it back"),
        by: text.exactOptional(),
      }),
    )
    .exactOptional()
    .describe("The version that each line was given last"),
  labels: z.record(text, text).exactOptional().describe("Given by people; absent: none"),
  seenAtMs: timeMs
    .exactOptional()
    .describe("When it was connected last, or reported what it runs; absent: never"),
  state: z.enum(["enrolled", "revoked", "quarantined"]),
  session: count,
  publicKey: text,
  certificates: z
    .array(
      z.object({
        serial: text,
        keyHash: text,
        notAfterMs: timeMs,
        authority: text.exactOptional().describe("The owner's authority; absent: the server's own"),
        issuer: text
          .exactOptional()
          .describe("Hash of the key that issued it, where the owner's authority did"),
      }),
    )
    .exactOptional()
    .describe("Those that open its connection, oldest first; absent: its token does"),
  active: z
    .record(
      text,
      z.object({
        versionId: hash,
        deviceAtMs: timeMs.describe("Since when, by the device's clock"),
        deviceClockErrorMs: z.number().nullable().describe("Known error of that clock; null: unknown"),
        serverAtMs: timeMs,
        number: count
          .exactOptional()
          .describe("Position in the line's history on the device, from 1; absent: its agent does not count"),
      }),
    )
    .describe("What each line runs"),
};
const liveMembers = {
  online: z.boolean(),
  doubt: z
    .object({
      sinceMs: timeMs.describe("When it reported that first, since this server was started"),
      text: text.describe("What the device found, and what can be done, in its words"),
    })
    .exactOptional()
    .describe("The device does not believe this server, which has not proven its history to it"),
};
const deviceSummary = z.object(deviceMembers) satisfies z.ZodType<Omit<DeviceSummary, "tokenHash">>;

export const listedDevice = deviceSummary
  .extend({
    ...liveMembers,
    runs: z.record(text, text).describe("What each line runs, as name:version where it is known here"),
  })
  .meta({ id: "ListedDevice" });
export const labelledDevice = z
  .object({
    device: text,
    labels: z.record(text, text).describe("All its labels after the change"),
  })
  .meta({ id: "LabelledDevice" });
export const shownDevice = deviceSummary
  .extend({
    ...liveMembers,
    runs: z.record(text, text).describe("What each line runs, as name:version where it is known here"),
    heads: z
      .array(
        z.object({
          line: text,
          versionId: hash,
          name: text,
          version: count,
          sequence: count.describe("Counts the line's models"),
          state: text,
        }),
      )
      .describe("The newest model that this generation of the device reported of each line"),
    versions: count.describe("Versions that it made, retired ones too"),
    refusals: z
      .array(
        z
          .object({
            code: text,
            message: text.describe("The reason, which the device is not told"),
            address: text.describe("Where the last one came from; at an external broker, that broker"),
            count: count.describe("Since this server was started"),
            atMs: timeMs.describe("The last one"),
          })
          .meta({ id: "RefusedConnections" }),
      )
      .exactOptional()
      .describe("Connections in its name that were refused, by reason, the newest first; absent: none"),
    claims: z
      .object({
        waiting: count.describe("For their replay"),
        wanted: count.describe("Not proved: the device is asked for their parameters"),
        lost: count.describe(
          "Not proved, and the device is revoked or replaced: nobody has their parameters",
        ),
      })
      .describe("Models that it reported without their parameters and that are no versions yet"),
  })
  .meta({ id: "ShownDevice" });

/** The permission for operations after which nobody can send the parameters of a device's claims. */
export const evenIfClaimed = z
  .boolean()
  .optional()
  .describe("Also where the device has models whose parameters only it has; those may be lost then");

export const enrolmentBody = {
  device: shortText.describe("Letters, digits, - and _; it begins with a letter or digit"),
  lines: z.array(shortText).min(1).max(64),
  profile: shortText.optional().describe("Device class (firmware-profiles/*.json); default generic"),
  initial: z.record(shortText, z.string().max(512)).optional().describe("Model that each line starts from"),
  allowReduced: z.boolean().optional().describe("Whether initial models may be reduced (lossy) ones"),
  evenIfClaimed,
  force,
  releases: z
    .enum(["required", "accepted", "off"])
    .optional()
    .describe(
      "Whether the device installs only released versions; default required once releases are published",
    ),
  dryRun: z.boolean().optional().describe("Check, enrol nothing: the answer is then empty"),
};

/** The enrolment file's content: secret, answered once, empty after a dry run. */
export const enrolment = z
  .object({
    kind: z.literal("stemma-enrolment"),
    format: z.literal(1),
    fleet: text,
    device: text,
    generation: count,
    lines: z.array(text),
    mqtt: z.array(text),
    http: text.exactOptional(),
    ca: text.exactOptional(),
    authorities: z.array(text).exactOptional(),
    root: text,
    token: text,
    deviceSeed: text,
    devicePublicKey: text,
    serverPublicKey: text,
    profile: text,
    releases: z.object({ root: text, policy: z.enum(["required", "accepted", "off"]) }),
    checksum: text,
  })
  .partial()
  .meta({
    id: "Enrolment",
    description: "Content of an enrolment file: secret, answered only once",
  }) as unknown as z.ZodType<Partial<Enrolment>>;

const { dryRun: _dryRun, ...invitedBody } = enrolmentBody;
export const invitationBody = {
  ...invitedBody,
  validMs: z
    .number()
    .int()
    .min(60_000)
    .max(366 * 86_400_000)
    .optional()
    .describe("How long it can be used; default a week"),
  authority: shortText
    .optional()
    .describe("The owner's authority whose certificate the device has to have; absent: it gets the server's"),
};

export const invitation = invitationSchema.meta({
  id: "Invitation",
  description: "Signed by the server; who has it first can enrol as the device",
});

export const certificateAnswer = certificateAnswerSchema.meta({
  id: "CertificateAnswer",
  description: "A device's certificate with the authorities of its server, signed by the server",
});

export const serverAddresses = z
  .object({
    mqtt: z.array(text).describe("Tried in order"),
    http: text.exactOptional(),
    ca: text.exactOptional().describe("PEM of the authority that devices trust"),
    authorities: z
      .array(text)
      .exactOptional()
      .describe("PEM of the server's own authorities; devices judge its certificate by these alone"),
    root: text.describe("First levels of every topic"),
    serverPublicKey: text,
    keyChanges: keyChangesSchema
      .exactOptional()
      .describe("How the server's key changed, oldest first, for devices that know an earlier one"),
  })
  .meta({ id: "ServerAddresses" });

/** A device's own report on its models; the server cannot check it. */
export const deviceEvaluation = z
  .object({
    line: text,
    measuredBy: z
      .enum(["engine", "program"])
      .exactOptional()
      .describe("Whether a program of the device's own measured instead of the engine; absent: older agents"),
    versions: z.array(
      z.object({
        versionId: hash,
        name: text.exactOptional().describe("name:version, where it is known here"),
        metric: z.object({
          name: text,
          unit: text,
          lowerIsBetter: z.boolean(),
          value: z.number().nullable().describe("Null where it is not finite"),
        }),
        durationMs: z.number(),
        inference: z
          .object({
            milliseconds: z.number().min(0).describe("Median time of one sample"),
            peakBytes: count.describe("Most memory of the process that measured it"),
          })
          .exactOptional()
          .describe("Of two models"),
      }),
    ),
    samples: z.object({ evaluated: count, heldOut: count }),
    datasetHash: hash.describe("Of all samples of the line: two evaluations with the same hash had the same"),
    paired: z
      .object({
        samples: count,
        better: count.describe("Samples on which the first model is less wrong than the second"),
        worse: count,
        equal: count,
        meanDifference: z
          .number()
          .describe(
            "Of the losses, first less second: 0 or 1 for a class, mean absolute error for numbers, or its program's",
          ),
        standardDeviation: z.number().describe("Of the differences"),
      })
      .nullable()
      .describe("Null for one model, and where losses cannot be told by sample"),
    change: z
      .number()
      .min(0)
      .nullable()
      .exactOptional()
      .describe(
        "How far the outputs of two models lie apart: the share of samples with another class, or the mean absolute difference of numbers",
      ),
  })
  .meta({ id: "DeviceEvaluation" });

export const commandAnswer = z.object({
  code: text.describe("OK, or why the device refused"),
  result: z.unknown().optional(),
});

export const fleetSummary = z
  .object({ fleet: text, versions: count, devices: count, online: count, journalLength: count })
  .meta({ id: "FleetSummary" });

export const serverCondition = z
  .object({
    status: z.enum(["ok", "degraded"]),
    problems: z.array(
      z.object({
        code: text.describe(
          "DISK_FULL, MEMORY_FULL: models are refused until space is free; MEMORY_NEARLY_FULL: soon; TIER_UNREACHABLE: recoveries that need a storage tier fail",
        ),
        message: text,
      }),
    ),
  })
  .meta({ id: "ServerCondition" });

export const health = z
  .object({
    version: text,
    pid: count.optional(),
    home: text.optional(),
    mqttUrl: text.optional(),
    httpUrl: text.optional(),
    publicKey: text.optional(),
    fleets: z.array(text).optional(),
  })
  .meta({ id: "ServerHealth", description: "Without a token only the version" });
