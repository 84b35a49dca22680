/**
 * Defines the one exact form in which certificates of an owner's authority name a device, so that none can be
 * read as two devices'. "cn:{device}", "serialNumber:{device}", "uri:urn:oem:{fleet}:{device}",
 * "dns:{device}.cars.example". Pure. (docs/own-authority.md)
 */
import { StemmaError } from "../../../shared/errors.js";
import {
  nameKinds,
  namesOf,
  type CertificateFields,
  type NameKind,
} from "../../../shared/trust/certificates/certificate-fields.js";
import { nameFormInvalid } from "./certificate-errors.js";

export const defaultNameForm = "cn:{device}";
const maxFormCharacters = 200;

interface NameForm {
  readonly kind: NameKind;
  /** The form's text, with {device} once, and {fleet} once at most. */
  readonly template: string;
}

/** @throws USAGE */
export function parseNameForm(text: string): NameForm {
  const wrong = (why: string): StemmaError => nameFormInvalid(text, why);
  const colon = text.indexOf(":");
  const kind = nameKinds.find((each) => each === text.slice(0, Math.max(colon, 0)));
  if (kind === undefined)
    throw wrong(`it begins with none of ${nameKinds.map((each) => `${each}:`).join(", ")}`);
  const template = text.slice(colon + 1);
  if (text.length > maxFormCharacters) throw wrong(`it is longer than ${maxFormCharacters} characters`);
  if (!/^[\x21-\x7e]+$/.test(template)) throw wrong("it has spaces, or other characters than those of ASCII");
  const marks = template.match(/\{[^}]*\}?|\}/g) ?? [];
  if (marks.filter((mark) => mark === "{device}").length !== 1) throw wrong("{device} has to be there once");
  const others = marks.filter((mark) => mark !== "{device}");
  if (others.length > 1 || others.some((mark) => mark !== "{fleet}"))
    throw wrong("only {device} and, once, {fleet} may be in braces");
  return { kind, template };
}

const kindTexts: Readonly<Record<NameKind, string>> = {
  cn: "common name",
  serialNumber: "serial number in its subject",
  uri: "alternative name (URI)",
  dns: "alternative name (DNS)",
};

/**
 * Returns why a certificate does not name this device; undefined if it does. What could name two devices names none.
 * @param form as parseNameForm reads it
 */
export function whyNotNamed(
  fields: CertificateFields,
  form: string,
  { fleet, device }: { readonly fleet: string; readonly device: string },
): string | undefined {
  const { kind, template } = parseNameForm(form);
  const written = template.replace("{fleet}", fleet);
  const [before = "", behind = ""] = written.split("{device}");
  const wanted = `${before}${device}${behind}`;
  const names = namesOf(fields, kind);
  // A subject has one of them; alternative names may be for other things, too.
  const isOfForm = (name: string): boolean =>
    name.length > before.length + behind.length && name.startsWith(before) && name.endsWith(behind);
  const naming = kind === "cn" || kind === "serialNumber" ? names : names.filter(isOfForm);
  const [name] = naming;
  if (name === undefined) return `it has no ${kindTexts[kind]} of the form ${template}`;
  if (naming.length > 1) return `it has several of a ${kindTexts[kind]}, so it names no device`;
  return name === wanted
    ? undefined
    : `its ${kindTexts[kind]} is ${JSON.stringify(name.slice(0, 100))}, and that of ${device} has to be ${JSON.stringify(wanted)}`;
}
