/** Finds one of a line's versions by what a person calls it. Pure. */
import { StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";

export interface NamedVersion {
  readonly versionId: Hash;
  /** `name:version`, or the name while the server has assigned no version. */
  readonly name: string;
}

const minPrefixLength = 8;

/**
 * The only version with this name, or whose id starts with these digits.
 * @param versions those of the line that are on this device
 * @throws MODEL_NOT_FOUND, MODEL_AMBIGUOUS
 */
export function findVersion<Version extends NamedVersion>(
  versions: readonly Version[],
  line: string,
  wanted: string,
): Version {
  const named = versions.filter(({ name }) => name === wanted);
  const found =
    named.length > 0
      ? named
      : versions.filter(({ versionId }) => wanted.length >= minPrefixLength && versionId.startsWith(wanted));
  const [only] = found;
  if (only === undefined || found.length > 1)
    throw new StemmaError(
      only === undefined ? "MODEL_NOT_FOUND" : "MODEL_AMBIGUOUS",
      only === undefined
        ? `No version of ${line} on this device has the name "${wanted}", or an id that begins with it ` +
            `(give ${minPrefixLength} digits or more). \`stemma agent status\` lists them.`
        : `${found.length} versions of ${line} on this device match ` +
            `"${wanted}": ${found.map(({ versionId }) => versionId.slice(0, 12)).join(", ")}. Name one by ` +
            "its version id.",
    );
  return only;
}
