/** The hashes of a version's documents, which its release names, and what has changed of them since. Pure. */
import { sha256 } from "../../../shared/tensor/hash.js";
import type { ReleaseDocuments } from "../../../shared/trust/releases/manifest.js";
import { billOfMaterials, billText } from "./bill-of-materials.js";
import { cardText } from "./card-text.js";
import type { DocumentSource } from "./document-source.js";
import { modelCard } from "./model-card.js";

/** The hashes of the files that `model card --file` and `model sbom --file` write, and of each section of the card. */
export function documentHashes(source: DocumentSource): ReleaseDocuments {
  const card = modelCard(source);
  return {
    card: sha256(`${cardText(card)}\n`),
    sections: Object.fromEntries(
      card.sections.map(({ title, statements }) => [title, sha256(JSON.stringify(statements))]),
    ),
    bill: sha256(`${billText(billOfMaterials(source.described))}\n`),
  };
}

/** The parts that are others than those of the release, by their names; empty: the very same files. */
export function changedSince(released: ReleaseDocuments, now: ReleaseDocuments): readonly string[] {
  const changed = Object.keys(now.sections).filter(
    (title) => now.sections[title] !== released.sections[title],
  );
  return [
    ...changed,
    ...(changed.length === 0 && now.card !== released.card ? ["the form of the card"] : []),
    ...(now.bill === released.bill ? [] : ["bill of materials"]),
  ];
}
