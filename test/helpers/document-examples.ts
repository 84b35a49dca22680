/** Versions for documents: one as a server described it after a training, and ones whose every text is hostile. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { DocumentSource } from "../../server/cli/documents/document-source.js";
import { repositoryRoot } from "./markdown.js";
import { describedVersion, idOf } from "./page-examples.js";

/** The folder of the golden documents. */
export const documentVectors = join(repositoryRoot, "test/vectors/documents");

/** A regression of a small table, fine-tuned from another version, replayed and evaluated; each time a copy. */
export function trainedSource(): DocumentSource {
  return JSON.parse(readFileSync(join(documentVectors, "trained.json"), "utf8")) as DocumentSource;
}

/** A version in which this text is wherever somebody else writes one. */
export function hostileSource(text: string): DocumentSource {
  const { described, evaluations } = trainedSource();
  const [first] = evaluations;
  const version = describedVersion({
    ...described,
    name: text,
    by: text,
    environment: { os: text, [text]: text, [`library.${text}`]: text },
    layers: [{ name: text, className: text }],
    leaves: [{ path: "0", name: text, dtype: text, shape: [1], bytes: 4, owner: namedVersion(text) }],
    bases: [{ ...namedVersion(text), state: "stored" }],
    derived: [namedVersion(text)],
    metadata: {
      [text]: text,
      license: text,
      "intended-use": text,
      factors: text,
      caveats: text,
      "ethical-considerations": text,
      "metric.name": text,
      "metric.unit": text,
      "metric.after": text,
    },
    measurements: [
      { iteration: 1, epoch: null, loss: null, learningRate: null, metrics: { [text]: 1 } },
    ] as unknown as NonNullable<typeof described.measurements>,
    record: {
      ...described.record,
      device: text,
      line: text,
      scheme: text,
      savedAtMs: Number.MAX_SAFE_INTEGER,
      objects: { ...described.record.objects, attachments: [{ name: text, hash: idOf(9) }] },
    },
    provenance: {
      ...(described.provenance as object),
      exactness: text,
      recipe: { name: text, version: text },
      random: { generator: text, seed: text },
      parameters: { [text]: { value: text, from: text } },
      data: [{ name: text, reader: text, columns: [text], split: { [text]: text } }],
      by: { who: text, through: "command" },
      notes: { [text]: text },
    },
    hold: { atMs: 0, because: text },
  });
  return {
    described: version,
    evaluations:
      first === undefined
        ? []
        : [{ ...first, by: text, data: { ...first.data, name: text, reader: text, content: idOf(8) } }],
    datasets: [{ name: text, hash: idOf(7) }],
  };
}

function namedVersion(name: string): DocumentSource["described"]["derived"][number] {
  return { versionId: idOf(6), name, version: 1 };
}
