/** `stemma model card|sbom|openlineage`: documents about a version, made of its record alone. */
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { printable } from "../../../../shared/printable.js";
import { verifyManifest } from "../../../../shared/trust/releases/manifest.js";
import { publishedOfSet } from "../../../../shared/trust/releases/release-change.js";
import { billOfMaterials, billText } from "../../documents/bill-of-materials.js";
import { cardText } from "../../documents/card-text.js";
import {
  describedForDocument,
  readDocumentSource,
  type DocumentSource,
} from "../../documents/document-source.js";
import { lineageEvent } from "../../documents/lineage-event.js";
import { modelCard } from "../../documents/model-card.js";
import { changedSince, documentHashes } from "../../documents/released-documents.js";
import { pathOf, plain, type PlainContext, type Printed } from "../../plain-command.js";
import { refuseExisting } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

const takes = { model: "name, name:version, name:tag or id" } as const;
const options = {
  file: { text: "<path> write it to this file; else it is printed", read: pathOf },
  force: "overwrite a file that exists",
} as const;

interface Document {
  readonly kind: string;
  readonly text: string;
  readonly data: object;
  readonly version: { readonly versionId: string; readonly name: string; readonly version: number };
  /** Lines for the person at the terminal. */
  readonly notes?: readonly string[];
}

interface Choices {
  readonly file: string | undefined;
  readonly force: boolean;
}

/** @param make is called once the name of the file is known to be free. @throws FILE_EXISTS, USAGE */
async function written({ file, force }: Choices, make: () => Promise<Document>): Promise<Printed> {
  if (file !== undefined) await refuseExisting(file, force);
  const { kind, text, data, version, notes = [] } = await make();
  const names = [version.versionId];
  if (file === undefined) return { data, names, text, notes, isVerbatim: true };
  await writeDurably(nodeFiles(), file, Buffer.from(`${text}\n`));
  const { versionId, name, version: number } = version;
  return {
    data: { versionId, name, version: number, file },
    names,
    text: `wrote the ${kind} of ${nameOf(version)} to ${file}`,
    notes,
  };
}

/**
 * Tells of each release of a version whether card and bill of materials are still those that its owner signed.
 * @throws RELEASE_MISMATCH where a manifest is not the signed one
 */
async function releaseNotes(source: DocumentSource, call: PlainContext["call"]): Promise<readonly string[]> {
  const { metadata, releases } = await call("releases");
  if (metadata === null) return [];
  const { targets } = publishedOfSet(metadata);
  const now = documentHashes(source);
  return releases.flatMap(({ name, versionId, manifest }) => {
    if (versionId !== source.described.versionId) return [];
    const { documents } = verifyManifest(targets.signed, name, Buffer.from(manifest));
    if (documents === undefined) return [];
    const changed = changedSince(documents, now);
    const what = changed.length === 0 ? "with this card and bill of materials" : "with other documents";
    const since = changed.length === 0 ? "" : `; changed: ${changed.join(", ")}`;
    return [`stemma: released as ${printable(name)} ${what}${since}`];
  });
}

/** @throws MODEL_RETIRED, OBJECT_MISSING, FILE_EXISTS, RELEASE_MISMATCH */
const card = plain(null, {
  name: "card",
  about: "a model card: what is recorded of a version, and what is not",
  takes,
  options,
  help: `
Markdown with the nine sections of Model Cards (Mitchell et al., 2019). Each statement
says how it is known: proved by a replay, recorded, or stated by somebody. Nothing is
invented: what nobody recorded is "not recorded". What a person has to say comes from
metadata or attached files of the names license, intended-use, factors,
ethical-considerations and caveats; all other metadata are notes:

  stemma model import soh.safetensors --name soh --meta license=Apache-2.0 \\
    --meta intended-use='state of health of pack 7' --attach caveats.md
  stemma model card soh --file soh.md

-o json prints its sections as data, with all texts in full. Of a released version it says on
stderr whether the documents are those that the release names.
`,
  run: ({ model, ...choices }, { call }) =>
    written(choices, async () => {
      const source = await readDocumentSource(call, model);
      const data = modelCard(source);
      const notes = await releaseNotes(source, call);
      return { kind: "model card", text: cardText(data), data, version: source.described, notes };
    }),
});

/** @throws MODEL_RETIRED, OBJECT_MISSING, FILE_EXISTS */
const sbom = plain(null, {
  name: "sbom",
  about: "a bill of materials: bases, data and software of a version",
  takes,
  options,
  help: `
CycloneDX 1.6, as JSON (ML-BOM). It is made of what does not change after a version was
recorded: the same version gives the same bytes until something of it is redacted.

  stemma model sbom soh --file soh.cdx.json
`,
  run: ({ model, ...choices }, { call }) =>
    written(choices, async () => {
      const version = await describedForDocument(call, model);
      const data = billOfMaterials(version);
      return { kind: "bill of materials", text: billText(data), data, version };
    }),
});

/** @throws NOT_FOUND where no training is recorded, MODEL_RETIRED, OBJECT_MISSING, FILE_EXISTS */
const openlineage = plain(null, {
  name: "openlineage",
  about: "an event of OpenLineage: what a version was trained from, on and with",
  takes,
  options,
  help: `
One event, COMPLETE, as JSON; its run has the same id each time. The time is when the training
ended by the trainer's clock, or of the save where that is redacted. To a collector:

  stemma model openlineage soh | curl -H 'Content-Type: application/json' \\
    --data-binary @- http://127.0.0.1:5000/api/v1/lineage
`,
  run: ({ model, ...choices }, { call }) =>
    written(choices, async () => {
      const version = await describedForDocument(call, model);
      const data = lineageEvent(version);
      return { kind: "event", text: JSON.stringify(data, null, 2), data, version };
    }),
});

export const commands = [card, sbom, openlineage];
