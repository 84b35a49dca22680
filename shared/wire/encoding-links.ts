/** The tensors that an encoding of a manifest names, as links and back. Pure. */
import { defined } from "../defined.js";
import { linksTo, listReferences, type Links } from "../delta/links.js";
import type { Hash } from "../tensor/tensor.js";
import type { Encoding } from "./messages.js";

type NamedReferences = Pick<Encoding, "against" | "previous" | "references">;

/** Every tensor that the encoding names, in order. */
export function listEncodingReferences({ against, previous, references }: NamedReferences): readonly Hash[] {
  return [against, previous, ...(references ?? [])].filter((id) => id !== undefined);
}

export function linksOfEncoding(encoding: NamedReferences): Links<Hash> {
  return linksTo(listEncodingReferences(encoding));
}

/** The members of an encoding that name these tensors. */
export function encodingReferences(links: Links<Hash>): NamedReferences {
  const { base, previous, others } = linksTo(listReferences(links));
  return defined({ against: base, previous, references: others });
}
