/** The parts of a file's header that a saved model takes: the order of its tensors, and the text where it is kept. */
import { compareNames } from "../model/tree.js";
import {
  safetensorsHeaderText,
  type SafetensorsEntry,
  type SafetensorsHeader,
} from "../tensor/safetensors-header.js";

/** Longest header kept verbatim with the names. */
const maxKeptHeader = 16 * 1024 * 1024;

export interface ArrangedHeader extends Omit<SafetensorsHeader, "text"> {
  /** Positions in `tensors`, in canonical order of the names. */
  readonly canonicalOrder: Uint32Array;
  /** The header verbatim, where order and metadata are not enough to write it again byte for byte. */
  readonly keptText: string | undefined;
}

export function arrangeHeader({ tensors, metadata, text }: SafetensorsHeader): ArrangedHeader {
  const canonicalOrder = Uint32Array.from(tensors.keys()).sort((a, b) =>
    compareNames((tensors[a] as SafetensorsEntry).name, (tensors[b] as SafetensorsEntry).name),
  );
  // Metadata are sorted when stored as canonical JSON; in files of the safetensors library they may have any
  // order.
  const sorted =
    metadata && Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)));
  const isWrittenAgain = text === safetensorsHeaderText(tensors, sorted) || text.length > maxKeptHeader;
  return { tensors, metadata, canonicalOrder, keptText: isWrittenAgain ? undefined : text };
}
