/** A range of an opened file as a file of its own, such as an entry of an archive. */
import type { OpenedPart } from "./form.js";

export function fileRange(
  { file }: OpenedPart,
  { start, byteLength }: { readonly start: number; readonly byteLength: number },
): OpenedPart {
  return {
    size: byteLength,
    file: {
      size: () => Promise.resolve(byteLength),
      read: (target, position) =>
        file.read(
          target.subarray(0, Math.max(0, Math.min(target.length, byteLength - position))),
          start + position,
        ),
    },
  };
}
