/** Lists of versions by their sequence numbers in the line of a device, as devices ask for them. */
import type { SaveRecord } from "../../../../shared/model/model.js";
import { LayeredMap } from "../../index/layered-map.js";
import { orderBytes, orderOf, type SavedRows } from "../../index/layers.js";
import { lineKey } from "./device-state.js";
import type { VersionState } from "./version-state.js";

interface NumberedVersion {
  readonly position: number;
  readonly sequence: number;
}
export type NumberedVersions = LayeredMap<NumberedVersion>;

export interface LinePlace {
  readonly device: string;
  readonly line: string;
}

export function numberedVersions(table: number, saved: SavedRows): NumberedVersions {
  return new LayeredMap<NumberedVersion>(
    table,
    {
      encode: ({ position, sequence }) => Buffer.concat([orderOf(position), orderOf(sequence)]),
      decode: (bytes) => ({
        position: bytes.readUIntBE(0, orderBytes),
        sequence: bytes.readUIntBE(orderBytes, orderBytes),
      }),
    },
    saved,
  );
}

interface NumberIndexes {
  readonly bySequence: NumberedVersions;
  readonly lineHeads: NumberedVersions;
}

/**
 * Adds a version. Of two with one number (a device that is enrolled again counts from the start) the later one counts.
 * Call in journal order.
 */
export function numberVersion(
  { bySequence, lineHeads }: NumberIndexes,
  { position, generation }: VersionState,
  record: SaveRecord,
): void {
  const { sequence } = record;
  bySequence.set(sequenceKey(record, sequence), { position, sequence });
  const line = generationKey(record, generation);
  if (sequence >= (lineHeads.get(line)?.sequence ?? 0)) lineHeads.set(line, { position, sequence });
}

export function sequenceKey({ device, line }: LinePlace, sequence: number): string {
  return `${lineKey(device, line)}\0${sequence}`;
}
export function generationKey({ device, line }: LinePlace, generation: number | undefined): string {
  return `${lineKey(device, line)}\0${generation ?? ""}`;
}
