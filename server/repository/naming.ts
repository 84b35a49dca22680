/**
 * Which names fleets, devices, lines, models and tags may have, and how a model reference is read.
 * Pure text; knows no store.
 */
import { StemmaError } from "../../shared/errors.js";

/** Fleets and devices are parts of MQTT topics and folder names: no dots, wildcards, slashes or control characters. */
const placePattern = /^[A-Za-z0-9@_-][A-Za-z0-9@_ -]{0,63}$/;
/** Models, lines and tags: printable, no colon (it separates name and version), no slash at either end. */
// eslint-disable-next-line no-control-regex
const modelPattern = /^[^\s:\u0000-\u001f\u007f/][^:\u0000-\u001f\u007f]{0,127}$/u;

type Named = "fleet" | "device" | "line" | "model" | "tag" | "dataset";

/** @throws NAME_INVALID */
export function checkName(what: Named, name: string): string {
  const pattern = what === "fleet" || what === "device" ? placePattern : modelPattern;
  if (!pattern.test(name) || name.trim() !== name || name.endsWith("/")) {
    const rule = pattern === placePattern
      ? "1 to 64 letters, digits, '_', '-', '@' or inner spaces"
      : "1 to 128 printable characters without ':', and no space or '/' at either end";
    throw new StemmaError("NAME_INVALID", `${JSON.stringify(name.slice(0, 140))} cannot name a ${what}: use ${rule}.`, { what, name: name.slice(0, 140) });
  }
  return name;
}

/** A tag must not read as a version number or be empty. @throws NAME_INVALID */
export function checkTag(tag: string): string {
  checkName("tag", tag);
  if (/^[0-9]+$/.test(tag)) throw new StemmaError("NAME_INVALID", `The tag ${JSON.stringify(tag)} would read as a version number in name:version. Use one with a letter in it.`, { tag });
  return tag;
}

export type ModelReferenceText =
  | { readonly kind: "newest"; readonly name: string }
  | { readonly kind: "version"; readonly name: string; readonly version: number }
  | { readonly kind: "tag"; readonly name: string; readonly tag: string };

/** Reads `name`, `name:version` or `name:tag`. Ids are tried by the caller, because a name may look like one. */
export function parseModelReference(reference: string): ModelReferenceText {
  const colon = reference.indexOf(":");
  if (colon < 0) return { kind: "newest", name: reference };
  const name = reference.slice(0, colon);
  const rest = reference.slice(colon + 1);
  if (/^[0-9]{1,15}$/.test(rest)) return { kind: "version", name, version: Number(rest) };
  return { kind: "tag", name, tag: rest };
}

/** Whether text may be a version id or a prefix of one (FORMATS: 8 hexadecimal digits or more). */
export function isIdPrefix(text: string): boolean { return /^[0-9a-f]{8,64}$/.test(text); }
