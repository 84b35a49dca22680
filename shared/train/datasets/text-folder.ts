/** Texts (UTF-8) in a folder for each class, as counts of the terms of a vocabulary, which the record keeps (ME8). */
import { join } from "node:path";
import { StemmaError } from "../../errors.js";
import { FilesHash, listClassFolders, readBounded } from "./class-folders.js";
import type { DatasetReader, SampleSet } from "./dataset.js";
import { partsWithout, rowSplitOf, splitRows } from "./row-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";
import { termKinds, termsOf, vocabularyOf } from "./terms.js";

const maxFileBytes = 16 * 1024 * 1024;
const maxTerms = 4096;
/** Bytes of all texts together: their terms are in memory at once. */
const maxTotalBytes = 512 * 1024 * 1024;

export const numberKinds = ["presence", "count", "share"] as const;

interface Text {
  readonly label: number;
  readonly terms: ReadonlyMap<string, number>;
}

/** A text as numbers, one for each term. */
export function inputOf(
  { terms }: Pick<Text, "terms">,
  vocabulary: readonly string[],
  numbers: (typeof numberKinds)[number],
): Float32Array {
  let total = 0;
  for (const count of terms.values()) total += count;
  return Float32Array.from(vocabulary, (term) => {
    const count = terms.get(term) ?? 0;
    switch (numbers) {
      case "presence":
        return Math.min(1, count);
      case "count":
        return count;
      case "share":
        return total === 0 ? 0 : count / total;
    }
  });
}

/** Parameters: docs/reference/data.md, "Texts". The location is a folder. */
export const textFolder: DatasetReader = {
  name: "text-folder",
  needsLocation: true,
  async read(reference, files) {
    const parameters = new ParameterReader("text-folder", reference.parameters);
    const list = (name: string, pattern: RegExp, max: number): readonly string[] | undefined =>
      parameters.has(name) ? parameters.texts(name, [], pattern, max) : undefined;
    const classNames = list("classNames", /^[^/\\\0]{1,255}$/, 10_000);
    const given = list("vocabulary", /^[^,]{1,200}$/s, maxTerms);
    const kind = parameters.oneOf("terms", "unigrams", termKinds);
    const numbers = parameters.oneOf("numbers", "presence", numberKinds);
    const limit = parameters.whole("maxTerms", 500, 1, maxTerms);
    const minTexts = parameters.whole("minTexts", 2, 1, 1_000_000);
    const split = rowSplitOf("text-folder", parameters);
    parameters.end();
    const folder = reference.location ?? ".";
    const found = await listClassFolders(folder, files, {
      reader: "text-folder",
      classNames,
      fits: (name) => name.endsWith(".txt"),
    });
    const hash = new FilesHash();
    const texts: Text[] = [];
    let total = 0;
    for (const { path, label } of found.files) {
      const where = join(folder, path);
      const bytes = await readBounded(where, files, maxFileBytes);
      total += bytes.length;
      if (total > maxTotalBytes)
        throw new StemmaError(
          "DATASET_MALFORMED",
          `The texts in ${folder} have more than ${maxTotalBytes} bytes. Use fewer.`,
          { folder },
        );
      hash.add(path, bytes);
      texts.push({ label, terms: termsOf(textOf(bytes, where), kind) });
    }
    const parts = splitRows(texts, split);
    const vocabulary =
      given ??
      vocabularyOf(
        parts.train.map(({ terms }) => terms),
        { limit, minTexts },
      );
    if (vocabulary.length === 0)
      throw new StemmaError(
        "DATASET_EMPTY",
        `No term is in ${minTexts} training texts of ${folder}. Lower minTexts, or add texts.`,
        { folder },
      );
    const part = (chosen: readonly Text[]): SampleSet["train"] =>
      partOf(
        chosen.map((text) => ({ input: inputOf(text, vocabulary, numbers), target: [text.label] })),
        vocabulary.length,
        1,
      );
    return checkedSet({
      task: "classification",
      inputShape: [vocabulary.length],
      targetSize: 1,
      classes: found.classes.length,
      train: part(parts.train),
      validation: part(parts.validation),
      heldOut: part(parts.heldOut),
      withoutParts: partsWithout(split),
      description: {
        reader: "text-folder",
        location: folder,
        format: "UTF-8 texts in a folder for each class",
        sources: [hash.summary()],
        columns: [
          ...vocabulary.map((name) => ({ name, role: "input", kind: "number" })),
          { name: "class", role: "target", kind: "category", words: found.classes },
        ],
        transformations: [
          "A to Z become small; words are runs of a to z, 0 to 9, apostrophes and characters beyond ASCII",
          `${kind}; the vocabulary is ${given === undefined ? `the ${limit} terms that are in most training texts, in at least ${minTexts}` : "given"}`,
          `number: ${numbers} of the term in the text`,
        ],
        split,
      },
    });
  },
};

/** @throws DATASET_MALFORMED */
export function textOf(bytes: Uint8Array, where: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new StemmaError("DATASET_MALFORMED", `${where} is not UTF-8 text. Convert or remove it.`, {
      file: where,
      cause,
    });
  }
}
