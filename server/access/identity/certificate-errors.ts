/** Errors of what an owner gives of its certificates: files of authorities, revocation lists, forms of names. */
import { errorOf, StemmaError } from "../../../shared/errors.js";

const refused = errorOf("CERTIFICATE_REFUSED");

/** @param why ends with what to give instead */
export const notAnAuthority = (why: string): StemmaError =>
  refused(`The file is not one of an authority: ${why}.`);
export const listRefused = (why: string): StemmaError =>
  refused(
    `The revocation list is not taken: ${why}. Nothing was changed: give the newest list of the authority, as it gave it.`,
  );
export const nameFormInvalid = (text: string, why: string): StemmaError =>
  new StemmaError(
    "USAGE",
    `${JSON.stringify(text.slice(0, 80))} does not say how certificates name devices: ${why}. Write for example cn:{device}, serialNumber:{device}, uri:urn:oem:vehicle:{device} or dns:{device}.cars.example.`,
  );
