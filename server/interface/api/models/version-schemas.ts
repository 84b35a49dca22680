/** Inputs and answers of the operations on models and their versions. */
import * as z from "zod";
import type { EnvironmentPolicy, EnvironmentVerdict } from "../../../../shared/model/environment.js";
import { streamedKinds, type Leaf, type SaveRecord } from "../../../../shared/model/model.js";
import type { ExportedModelJson } from "../../../../shared/model/model-json-export.js";
import type { RecoverySteps } from "../../../../shared/recover/recovery.js";
import type { Measurement } from "../../../../shared/train/training.js";
import type { FleetMoment } from "../../../storage/repository/answers/device-answers.js";
import type {
  ModelDiff,
  VersionPage,
  VersionSummary,
} from "../../../storage/repository/answers/version-answers.js";
import {
  descriptionSource,
  memberProof,
  count,
  ended,
  hash,
  namedVersion,
  parameterValue,
  replayGrade,
  shortText,
  timeMs,
  unreadableVersions,
} from "../fields.js";
import type { ValueOf } from "../operation.js";
import { spotChecked } from "./spot-check-schemas.js";

const text = z.string();

const saveRecord = z
  .object({
    format: z.union([z.literal(1), z.literal(2)]),
    name: text,
    fleet: text,
    device: text,
    line: text,
    sequence: count.describe("The device's own counter for this line, from 1"),
    bases: z.array(hash).describe("What it was trained from; the first is the one compared with"),
    successorOf: hash.exactOptional(),
    kind: z.enum(["architecture", "opaque"]),
    contentId: hash,
    architecture: hash,
    root: hash.describe("Root of the Merkle tree over all tensors"),
    approach: z.enum(["snapshot", "update", "provenance"]),
    scheme: text.exactOptional().describe("The float scheme of a reduced model; absent: exact"),
    savedAtMs: timeMs.describe("By the saver's clock"),
    clockErrorMs: z.number().nullable().describe("Known error of that clock; null: unknown"),
    objects: z.object({
      tree: hash,
      architecture: hash.exactOptional(),
      names: hash,
      ownerMap: hash,
      environment: hash,
      measurements: hash.exactOptional(),
      checkpoints: hash.exactOptional(),
      provenance: hash.exactOptional(),
      metadata: hash.exactOptional(),
      openings: hash.exactOptional(),
      attachments: z.array(z.object({ name: text, hash })).exactOptional(),
    }),
    uses: z
      .object({
        engine: hash.exactOptional(),
        recipe: hash.exactOptional(),
        data: z.array(hash).exactOptional(),
        optimizer: hash.exactOptional().describe("Tree of the optimizer's state after the training"),
        checkpoints: z.array(z.object({ iteration: count, tree: hash })).exactOptional(),
      })
      .exactOptional()
      .describe("What a replay of the training needs, and the version's other trees"),
  })
  .meta({ id: "SaveRecord" }) satisfies z.ZodType<SaveRecord>;

/** The reason why a claim was not proved. */
export const endedClaim = z.object({
  verdict: z.enum(["refuted", "unreplayable"]),
  atMs: timeMs,
  because: text,
  grade: replayGrade.exactOptional(),
  engineId: hash.exactOptional(),
  by: text.exactOptional(),
});

const versionMembers = {
  versionId: hash,
  name: text,
  version: count,
  record: saveRecord,
  position: count.describe("Position of its fact in the journal"),
  recordedAtMs: timeMs.describe("By the server's clock"),
  state: z.enum(["recorded", "stored", "released", "retired"]),
  tags: z.array(text),
  held: z.boolean(),
  hold: z
    .object({ atMs: timeMs, because: text, by: text.exactOptional() })
    .exactOptional()
    .describe("The caller that holds it, and why"),
  retired: ended.exactOptional(),
  replayed: z
    .object({
      atMs: timeMs,
      verdict: z.enum(["proved", "refuted"]),
      grade: replayGrade,
      engineId: hash,
      because: text,
      by: text.exactOptional(),
      workMs: count.exactOptional().describe("Milliseconds of its training"),
      dataFrom: z.enum(["stored", "registered", "generator"]).exactOptional(),
      description: descriptionSource
        .exactOptional()
        .describe("Absent: an earlier release, which compared neither the description nor metric and losses"),
    })
    .exactOptional()
    .describe("How the latest replay of its training ended"),
  spotCheck: spotChecked
    .exactOptional()
    .describe("The latest spot check of its training, which proves nothing and frees nothing"),
  dropped: z
    .object({
      atMs: timeMs,
      because: text,
      by: text.exactOptional(),
      base: hash.nullable().describe("What its training began from; null: nothing"),
      engine: hash.describe("The stored archive of the engine that replays it"),
      engineId: hash,
      data: hash.nullable().describe("Manifest of its stored data; null: a generator makes them"),
      replayMs: count.describe("Milliseconds that its training took on this server"),
    })
    .exactOptional()
    .describe("Its tensors need not be stored: it is recovered by a replay"),
  dataDropped: z
    .object({ atMs: timeMs, because: text, by: text.exactOptional() })
    .exactOptional()
    .describe("The stored data of its training are not kept for it any more, so it cannot be replayed again"),
  provedBy: z
    .array(hash)
    .exactOptional()
    .describe(
      "Ids of the engines, or of the user's own program, whose replays gave its very tensors: each can replay it",
    ),
  evaluations: count.exactOptional().describe("How many evaluations of it are stored"),
  claim: z
    .object({
      recordedAtMs: timeMs,
      position: count.describe("Of the claim's fact in the journal"),
      isProved: z.boolean().describe("The server made the tensors itself; else the device sent them"),
      ended: endedClaim.exactOptional(),
    })
    .exactOptional()
    .describe("Its device reported how it was made before it sent any tensors"),
  by: text.exactOptional().describe("The caller that recorded it; absent where a device did"),
  tensorBytes: count.describe("Bytes of all its tensors"),
  ownBytes: count.describe("Bytes, decoded, of the tensors that this version changed or added"),
  received: z
    .literal(true)
    .exactOptional()
    .describe(
      "It came from another repository: fleet, device and line of its record are of that one, as it states",
    ),
  storedBytes: count
    .exactOptional()
    .describe(
      "Bytes that it added to the store when it was recorded, as they were stored then, with its record and what it " +
        "uses. Encoding, dropping and collection change what is there, not this. Absent: not noted at the time",
    ),
};
export const versionSummary = z
  .object(versionMembers)
  .meta({ id: "VersionSummary" }) satisfies z.ZodType<VersionSummary>;

export const measurement = z.object({
  iteration: count,
  epoch: z.number().nullable(),
  loss: z.number().nullable(),
  learningRate: z.number().nullable(),
  validation: z.number().nullable().exactOptional(),
  metrics: z.record(z.string().max(256), z.number().nullable()).exactOptional().describe("Of a training log"),
});

export const modelDescription = z
  .object({
    ...versionMembers,
    leaves: z.array(
      z.object({
        path: text,
        name: text,
        dtype: text,
        shape: z.array(count),
        bytes: count,
        owner: namedVersion.describe("The version that last changed this tensor"),
      }),
    ),
    layers: z.array(z.object({ name: text, className: text })).exactOptional(),
    file: z
      .object({ name: text, bytes: count, sha256: hash })
      .exactOptional()
      .describe("A file that is kept as it is; name and SHA-256 are stated by who saved it"),
    environment: z.record(text, text),
    measurements: (z.array(measurement) as unknown as z.ZodType<readonly Measurement[]>).exactOptional(),
    metadata: z.record(text, parameterValue).exactOptional(),
    provenance: z.unknown().exactOptional(),
    proof: memberProof
      .exactOptional()
      .describe("What the replay that proved it says of each member of its story"),
    uses: z
      .array(
        z.object({
          kind: z.enum(streamedKinds),
          id: hash,
          byteLength: count.nullable().describe("null: not in this store"),
        }),
      )
      .describe("Engine, recipe and data of the training; record.uses also has checkpoints and optimizer"),
    bases: z.array(namedVersion.extend({ state: text })),
    derived: z.array(namedVersion),
    listed: z
      .object({
        license: text.exactOptional(),
        task: text.exactOptional(),
        atMs: timeMs,
        by: text.exactOptional(),
      })
      .exactOptional()
      .describe("It was published here or where it was pulled from, with this stated of it"),
  })
  .meta({ id: "ModelDescription" });
export type ModelDescription = ValueOf<typeof modelDescription>;

const leaf = z.object({
  path: text,
  tensor: hash,
  dtype: text as unknown as z.ZodType<Leaf["dtype"]>,
  shape: z.array(count),
}) satisfies z.ZodType<Leaf>;

/** Two different labels, of 1 to 40 letters, digits and some signs that need no quotes. */
export const diffLabels = z
  .string()
  .regex(
    /^([\w.:@-]{1,40}),(?!\1$)[\w.:@-]{1,40}$/,
    "is not two different labels, as in original,reproduced",
  );

const provenanceDiff = z
  .object({
    differences: z
      .record(text, z.unknown())
      .describe(
        "Only members that differ, with the values of both sides under their labels, or of the one that has it",
      ),
    redacted: z.array(text).describe("Members that one side does not show, and that may differ"),
    sameStory: z.boolean().describe("Whether only times differ, and nothing that could differ is hidden"),
  })
  .meta({ id: "ProvenanceDiff" });
export type ProvenanceDiffJson = ValueOf<typeof provenanceDiff>;

export const modelDiff = z
  .object({
    a: hash,
    b: hash,
    sameArchitecture: z.boolean(),
    opaque: z.boolean().describe("Whether neither has an architecture"),
    comparisons: count,
    files: z
      .object({
        a: count,
        b: count,
        differing: count
          .exactOptional()
          .describe(
            "Bytes that differ in their places, with those that one has more; absent: too large to compare",
          ),
      })
      .exactOptional()
      .describe("Where both are files that are kept as they are: how many bytes they have"),
    changes: z.array(
      z.object({
        kind: z.enum(["changed", "added", "removed", "renamed", "moved", "reshaped"]),
        path: text,
        name: text,
        otherPath: text.exactOptional(),
        otherName: text.exactOptional(),
        a: leaf.exactOptional(),
        b: leaf.exactOptional(),
        relation: text
          .exactOptional()
          .describe(
            "How b follows from a by content, such as: a cast to BF16; of an added tensor, from which it follows, such as: from encoder: rows 300 to 309 are new",
          ),
      }),
    ),
    provenance: provenanceDiff
      .exactOptional()
      .describe("How their trainings differ, where both have provenance of format 1"),
  })
  .meta({ id: "ModelDiff" }) satisfies z.ZodType<ModelDiff>;

export const fleetMoment = z
  .object({
    device: text,
    line: text,
    versionId: z.union([hash, z.literal("unknown")]),
    why: text,
    sinceMs: timeMs.exactOptional(),
    uncertainMs: z.number().nullable().exactOptional(),
  })
  .meta({ id: "FleetMoment" }) satisfies z.ZodType<FleetMoment>;

const recoverySteps = z
  .object({
    loadMs: z.number(),
    rebuildMs: z.number(),
    checkEnvironmentMs: z.number(),
    verifyMs: z.number(),
  })
  .describe("Milliseconds of each step") satisfies z.ZodType<RecoverySteps>;

const environmentVerdict = z.object({
  verdict: z
    .enum(["same", "compatible", "different"])
    .describe("compatible: only fields differ that do not decide bits"),
  differing: z.array(z.object({ field: text, recorded: text.optional(), here: text.optional() })),
}) as unknown as z.ZodType<EnvironmentVerdict>;

export const recoveryReport = z
  .object({
    versionId: hash,
    name: text,
    version: count,
    root: hash,
    byteLength: count,
    tensors: count,
    steps: recoverySteps,
    environment: environmentVerdict,
    scheme: text.exactOptional().describe("The float scheme of a reduced model; absent: exact"),
    part: z.literal("optimizer").exactOptional().describe("Absent: a model"),
    checkpoint: count.exactOptional().describe("Training steps before this model; absent: the version's"),
    partOf: count
      .exactOptional()
      .describe("Where only some layers were recovered: how many tensors there are"),
    story: hash.exactOptional().describe("SHA-256 of the story in the file; absent: it has none"),
    file: text.exactOptional().describe("Name of the file that was saved, where these are its very bytes"),
    layout: z
      .object({
        ...{ versionId: hash, name: text, version: count },
        inexact: count
          .exactOptional()
          .describe(
            "Numbers that are the sum of two in the file, which after rounding do not give them again",
          ),
      })
      .exactOptional()
      .describe("The version whose layout the file has: itself, or one that it came from"),
  })
  .meta({ id: "RecoveryReport" });
export type RecoveryReport = ValueOf<typeof recoveryReport>;

export const verificationReport = recoveryReport
  .extend({
    parts: z
      .array(text)
      .describe("What was read and is as it was saved: the model, checkpoints, optimizer state, objects"),
  })
  .meta({ id: "VerificationReport" });
export type VerificationReport = ValueOf<typeof verificationReport>;

/**
 * safetensors: one complete file. tfjs: only the weights, which the version's model.json describes. original: the file
 * that was saved, byte for byte. auto: original for a file that is kept as it is, else safetensors.
 */
export const recoveryForms = ["safetensors", "tfjs", "original", "auto"] as const;
export type RecoveryForm = (typeof recoveryForms)[number];
export const recoveryForm = z
  .enum(recoveryForms)
  .describe(
    "safetensors (default); tfjs: the weights' bytes as the model.json of the version has them; original: the very " +
      "file that was saved; auto: that of a file that is kept as it is, else safetensors",
  );

export const recoveryLayout = z
  .enum(["original"])
  .describe(
    "original: the tensors as the file had them from which the model, or a version that it came from, was imported",
  );

/** The parts of a version that can be recovered: its model, or the optimizer's state after the training. */
export const recoveryParts = ["model", "optimizer"] as const;
export const recoveryPart = z
  .enum(recoveryParts)
  .describe("model (default), or optimizer: the optimizer's state after the training, as named tensors");

export const modelJson = z
  .object({
    format: z.literal("layers-model"),
    generatedBy: text,
    convertedBy: z.null(),
    modelTopology: z.record(text, z.unknown()),
    weightsManifest: z.array(
      z.object({
        paths: z.array(text),
        weights: z.array(z.object({ name: text, shape: z.array(count), dtype: text })),
      }),
    ),
  })
  .meta({
    id: "TfjsModel",
    description: "A model.json as tf.loadLayersModel reads it",
  }) satisfies z.ZodType<ExportedModelJson>;
export type ModelJson = ValueOf<typeof modelJson>;

export const modelsQuery = {
  name: shortText.optional().describe("Only versions of this name"),
  device: shortText.optional().describe("Only those of this device"),
  line: shortText.optional().describe("Only those of this line"),
  all: z.boolean().optional().describe("Retired ones too"),
};
export const listModelsQuery = {
  ...modelsQuery,
  where: z
    .array(z.string().max(600))
    .max(16)
    .optional()
    .describe("Only those whose metadata matches, such as key=value or accuracy>=0.9 (repeatable)"),
  order: z.enum(["newest", "oldest"]).optional().describe("newest first (default), or oldest first"),
  offset: z.number().int().min(0).max(1e9).optional().describe("How many to skip"),
  limit: z.number().int().min(1).max(10_000).optional().describe("How many at most; default 100"),
};

export const versionPage = z
  .object({
    versions: z.array(versionSummary).describe("In the order that was asked for"),
    total: count.describe("How many versions there are on all pages together"),
    unreadable: unreadableVersions.describe(
      "On the first page: versions that the journal knows and no query can find, since the store cannot read them",
    ),
  })
  .meta({ id: "VersionPage" }) satisfies z.ZodType<VersionPage>;

export const attachedFile = z
  .object({ name: text, hash, byteLength: count, base64: z.string() })
  .meta({ id: "AttachedFile" });

export const environmentPolicies = ["ignore", "report", "refuse-different", "refuse-any"] as const;
export const environmentPolicy = z
  .enum(environmentPolicies)
  .describe(
    "What an environment that differs from the recorded one means",
  ) satisfies z.ZodType<EnvironmentPolicy>;
