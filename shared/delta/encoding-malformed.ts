/** The error for bytes that are not an encoding of the declared tensor. */
import { StemmaError } from "../errors.js";

export function encodingMalformed(reason: string): StemmaError<"DELTA_MALFORMED"> {
  return new StemmaError(
    "DELTA_MALFORMED",
    `This is not the encoding of a tensor: ${reason}. Fetch it again, or recover the model from another copy.`,
    { reason },
  );
}
