/** Decides whose signature on a journal is believed, for the commands of the journal. */
import { messageOf } from "../../shared/error-text.js";
import { StemmaError } from "../../shared/errors.js";
import { differs } from "../../shared/journal/fact-proof.js";
import { parseInvitation } from "../../shared/trust/certificates/invitation.js";
import { parseEnrolment } from "../../shared/trust/enrolment.js";
import { verifyHead, type ShownHead } from "../../shared/trust/signatures.js";
import { readTextFile } from "./text-file.js";
import { counted } from "../../shared/printable.js";

export interface KeyChoices {
  readonly key: string | undefined;
  readonly enrolment: string | undefined;
}
const isPublicKey = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);

/** The key that the caller trusts; undefined where none was named. @throws USAGE, ENROLMENT_INVALID */
export async function pinnedKey({ key, enrolment }: KeyChoices): Promise<string | undefined> {
  if (key !== undefined && !isPublicKey(key))
    throw new StemmaError("USAGE", "--key takes a public key of 64 hexadecimal digits in lower case.");
  if (enrolment === undefined) return key;
  const value = await jsonFile(enrolment);
  const isInvitation = (value as { readonly kind?: unknown } | null)?.kind === "stemma-invitation";
  return (isInvitation ? parseInvitation(value, enrolment) : parseEnrolment(value, enrolment))
    .serverPublicKey;
}

/** The same head as the server sent it, which this key signed. @throws HEAD_SIGNATURE_INVALID */
export function signedBy(key: string, head: ShownHead): ShownHead {
  verifyHead(key, head);
  return head;
}

/** The error for a server with fewer facts than a kept head has. */
export function shorter({ length }: ShownHead, kept: number): StemmaError {
  return differs(
    `the server has ${counted(length, "fact")}, and a head of ${kept} was kept. If it was put back to an older state and you ` +
      "know why, begin anew with `journal head --witness FILE --after-restore`",
  );
}

/** @throws FILE_MISSING, FILE_NOT_REGULAR, USAGE */
export async function jsonFile(path: string): Promise<unknown> {
  const text = await readTextFile(path, 4 * 1024 * 1024);
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new StemmaError("USAGE", `${path} is not JSON: ${messageOf(error)}.`);
  }
}
