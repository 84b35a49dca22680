/** Fields that several operations have in their input or answer. */
import * as z from "zod";
import type { ErrorCode } from "../../../shared/errors.js";
import type { ValueOf } from "./operation.js";
import type { UnreadableVersion } from "../../storage/repository/answers/version-answers.js";
import type { Hash } from "../../../shared/tensor/tensor.js";

/** A SHA-256 in hex. The type is narrower than what the schema infers: a checked string is a Hash. */
export const hash = z
  .string()
  .regex(/^[0-9a-f]{64}$/, "is not a SHA-256 in lower-case hex")
  .meta({ id: "Hash", description: "SHA-256 as 64 lower-case hex digits" }) as unknown as z.ZodType<
  Hash,
  Hash
>;

export const shortText = z.string().min(1).max(256);
export const modelText = z
  .string()
  .min(1)
  .max(512)
  .describe(
    "A model: name, name:version, name:tag, version id or at least 8 digits of it; where devices get it also release:NAME",
  );
/** The permission for what is probably a mistake, and stays in the journal. */
export const force = z
  .boolean()
  .optional()
  .describe(
    "Also a line or fleet near to a known one, a model of another shape than the line's, another network's base",
  );
export const reasonText = z.string().max(1024).describe("Why, in a few words; it is kept with the fact");
export const selectionText = z
  .string()
  .max(4096)
  .describe("Which devices: a selection, such as `label.region=eu and seen<7d` (docs/selections.md)");
export const leaseText = z
  .string()
  .regex(/^[0-9a-f]{32}$/, "is not the id of a lease")
  .describe("The lease of a transfer: the model may be retired meanwhile");
export const lineKeyText = z
  .string()
  .regex(/^[0-9a-f]{32}$/, "is not the key of a lease")
  .describe("The key of the lease under which a search or evaluation has the line");
export const fleetText = shortText.describe("The fleet that owns devices and models");
export const deviceText = shortText.describe("A device of the fleet");

export const count = z.number().int().nonnegative();
export const timeMs = z.number().describe("Milliseconds since 1970");

export const parameterValue = z.union([z.string().max(65536), z.number(), z.boolean()]);
export const parameters = z.record(z.string().max(256), parameterValue);
/** Parameters of a data reader may also be lists of texts. */
export const readerParameters = z.record(
  z.string().max(256),
  z.union([z.string().max(65536), z.number(), z.boolean(), z.array(z.string().max(65536)).max(4096)]),
);

export const fleetPath = "/v1/fleets/:fleet";
export const devicePath = `${fleetPath}/devices/:device`;
export const modelPath = `${fleetPath}/models/:model`;
export const storagePath = `${fleetPath}/storage`;

export const fleetParams = { fleet: fleetText };
export const deviceParams = { fleet: fleetText, device: deviceText };
export const modelParams = { fleet: fleetText, model: modelText };
export const jobParams = z.object({ ...fleetParams, job: shortText.describe("The job's id") });

/** The end of something: when, why and by whom. */
export const ended = z
  .object({
    atMs: timeMs,
    because: z.string(),
    by: z.string().exactOptional().describe("The caller; absent where a rule or the server did it"),
  })
  .meta({ id: "Ended" });

/** The extent to which a replay repeated a training. */
export const replayGrade = z
  .enum(["bit-exact", "execution-exact", "different"])
  .describe(
    "bit-exact; execution-exact: the same operations, numbers and measures, other bits; or different",
  );

/** The words of classes of a model and of the data that it is measured on. */
export const differingWords = z
  .object({ model: z.array(z.string()), data: z.array(z.string()) })
  .describe("Words of the classes that the model was trained on and those of the data, where they differ");

/** The other side of a comparison of recorded data descriptions. */
export const descriptionSource = z
  .enum(["reader", "stored", "sent", "none"])
  .describe(
    "What the recorded description of the data was compared with: what a reader said of them now; what this server's " +
      "reader said when it stored them; what the device sent with them, which is only its statement; or nothing",
  );

const rowsOfStory = z.array(z.string());
/** The members of a story, by how far a replay proved them. */
export const memberProof = z
  .object({
    rebuilt: rowsOfStory.describe("Made again by the replay, and equal"),
    bound: rowsOfStory.describe("Named by the hash of something that the replay used"),
    stated: rowsOfStory.describe("Only stated by somebody"),
    notRebuildable: rowsOfStory.describe(
      "Not rebuildable here, so only stated: redacted, or not carried by stored samples",
    ),
  })
  .describe("What the replay says of each member of the story, by its name in docs/provenance.md")
  .meta({ id: "MemberProof" });
export type MemberProof = ValueOf<typeof memberProof>;

/** A version named for a person. */
export const namedVersion = z.object({ versionId: hash, name: z.string(), version: z.number() });

export const errorCode = z.string() as unknown as z.ZodType<ErrorCode>;

/** Versions that the journal knows and the store cannot read. */
export const unreadableVersions = z
  .array(
    z
      .object({ ...namedVersion.shape, code: errorCode, message: z.string() })
      .meta({ id: "UnreadableVersion" }) satisfies z.ZodType<UnreadableVersion>,
  )
  .describe("Versions that the journal knows and the store cannot read");

/** The schema that a member has where it is present. */
export function withoutOptional(schema: z.core.$ZodType): z.core.$ZodType {
  return schema instanceof z.ZodOptional ? withoutOptional(schema.unwrap()) : schema;
}
