/** Operations on the journal of a fleet: its facts, its signed head, and proofs about it (RFC 9162). */
import * as z from "zod";
import type { LogRoot } from "../../../../shared/journal/merkle-log.js";
import type { FactProof } from "../../../../shared/journal/fact-proof.js";
import { keyChangesSchema } from "../../../../shared/trust/key-change.js";
import type { ShownHead } from "../../../../shared/trust/signatures.js";
import { maxNoteBytes } from "../../../../shared/trust/signed-note.js";
import { count, fleetParams, fleetPath, hash, modelText } from "../fields.js";
import { journalPage, maxListedFacts } from "./journal-schemas.js";
import { call } from "../operation.js";

/** A root of releases, its text within JSON, and the signatures. */
const maxRestoreFileBytes = 256 * 1024;

const position = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const proof = z.array(hash).describe("Hashes of RFC 9162, lowest first");

const signedHead = z
  .object({
    length: count.describe("Number of facts"),
    chain: hash.describe("SHA-256 over the chain before and the last fact"),
    root: hash.describe("Root of the Merkle tree over all facts (RFC 9162)"),
    publicKey: z.string().describe("The server's key: Ed25519, in hex"),
    signature: z.string().describe("Of length, chain and root by this key (docs/formats.md, Signatures)"),
  })
  .extend({
    keyChanges: keyChangesSchema
      .exactOptional()
      .describe(
        "How the server's key changed, oldest first: who trusts an earlier one can go on to this one",
      ),
  })
  .meta({ id: "SignedJournalHead" }) satisfies z.ZodType<ShownHead>;

const logRoot = z.object({ length: count, root: hash }) satisfies z.ZodType<LogRoot>;

const factProof = z
  .object({
    position: count,
    fact: z
      .string()
      .nullable()
      .describe("The fact as it is in the journal; null for an enrolment, which has the hash of a secret"),
    leaf: hash.describe("Of the fact: SHA-256 of a zero byte and its text"),
    log: logRoot.describe("The journal of so many facts, in which the fact is proven to be"),
    inclusion: proof.describe("From the leaf to the root of this journal"),
    head: signedHead.describe("The present head"),
    consistency: proof.describe("That this journal is the start of the one with the present head"),
  })
  .meta({ id: "FactProof" }) satisfies z.ZodType<FactProof>;

const entryPage = z
  .object({
    head: signedHead,
    facts: z
      .array(z.string())
      .describe("Each exactly as it is in the journal; fewer than asked for where they are long"),
  })
  .meta({ id: "JournalLeaves" });

const checkpoint = z
  .object({
    origin: z.string().describe("The journal's name for witnesses; it changes when the fleet is restored"),
    verifierKey: z.string().describe("The server's key as witnesses are given it (C2SP signed-note)"),
    length: count,
    root: hash,
    text: z.string().describe("The checkpoint (C2SP tlog-checkpoint), with the cosignatures that are here"),
    cosigners: z.array(z.string()).describe("Names below it; their signatures are not verified here"),
  })
  .meta({ id: "CheckpointText" });

const restoreAtIssue = {
  restore: count.describe("Position of the fact `restored`"),
  says: z.array(z.string()).describe("What the statement says, for those who sign it"),
};

export const journalOperations = {
  journal: call({
    summary: "Facts of a fleet in the order in which they became true, with who caused them",
    method: "GET",
    path: `${fleetPath}/journal`,
    right: "read",
    params: fleetParams,
    query: {
      from: position.optional().describe("Position of the first fact; without it the last ones are answered"),
      limit: z.number().int().min(1).max(maxListedFacts).optional().describe("How many at most; default 100"),
    },
    output: journalPage,
  }),
  journalHead: call({
    summary: "The signed head of a fleet's journal, and a proof that an earlier journal is its start",
    method: "GET",
    path: `${fleetPath}/journal/head`,
    right: "read",
    params: fleetParams,
    query: { from: position.optional().describe("Number of facts of the earlier journal; absent: no proof") },
    output: z
      .object({ head: signedHead, consistency: proof.nullable().describe("Null where none was asked for") })
      .meta({ id: "ProvenHead" }),
  }),
  journalCheckpoint: call({
    summary: "The head of a fleet's journal as a checkpoint, which public witnesses can cosign",
    method: "GET",
    path: `${fleetPath}/journal/checkpoint`,
    right: "read",
    params: fleetParams,
    query: {
      from: position
        .optional()
        .describe("Number of facts that the witness cosigned last; absent: no request to it"),
    },
    output: checkpoint
      .extend({
        request: z
          .string()
          .nullable()
          .describe("What the witness is sent (C2SP tlog-witness, add-checkpoint)"),
      })
      .meta({ id: "CheckpointToCosign" }),
  }),
  cosignJournal: call({
    summary: "Bring a checkpoint with the cosignatures of witnesses; devices that ask for them are shown it",
    method: "POST",
    path: `${fleetPath}/journal/checkpoint`,
    right: "change-devices",
    params: fleetParams,
    body: {
      checkpoint: z.string().min(1).max(maxNoteBytes).describe("Its text, with the witnesses' lines below"),
    },
    output: checkpoint,
  }),
  proveFact: call({
    summary: "The proof that a fact is in the journal: by its position, or the fact that recorded a model",
    method: "GET",
    path: `${fleetPath}/journal/proof`,
    right: "read",
    params: fleetParams,
    query: {
      position: position.optional(),
      model: modelText.optional(),
      length: position
        .optional()
        .describe("Prove it in the journal of so many facts; absent: in the present one"),
    },
    output: factProof,
  }),
  journalEntries: call({
    summary: "The facts of a journal exactly as they are in it, to keep or to check them elsewhere",
    method: "GET",
    path: `${fleetPath}/journal/entries`,
    // Enrolments have the hashes of tokens.
    right: "administer",
    params: fleetParams,
    query: {
      from: position.describe("Position of the first"),
      limit: z
        .number()
        .int()
        .min(1)
        .max(maxListedFacts)
        .optional()
        .describe("How many at most; default 1000"),
    },
    output: entryPage,
  }),
  restoreToSign: call({
    summary: "What the fleet's owner is to sign, so that devices that demand releases go on after a restore",
    method: "GET",
    path: `${fleetPath}/journal/restored`,
    right: "read",
    params: fleetParams,
    output: z
      .object({ ...restoreAtIssue, file: z.string().describe("The file for `stemma release sign`") })
      .meta({ id: "RestoreStatement" }),
  }),
  approveRestore: call({
    summary: "Bring the owner's signature of a restore; it is checked as a device checks it",
    method: "POST",
    path: `${fleetPath}/journal/restored`,
    right: "publish",
    params: fleetParams,
    body: {
      file: z.string().min(1).max(maxRestoreFileBytes).describe("The file that `stemma release sign` wrote"),
      dryRun: z.boolean().optional(),
    },
    output: z.object(restoreAtIssue).meta({ id: "ApprovedRestore" }),
  }),
};
