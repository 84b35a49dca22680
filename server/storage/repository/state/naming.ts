/** The names that fleets, devices, models and tags may have, and the parts of a model reference. Pure. */
import { isName, nameRule } from "../../../../shared/wire/topics.js";
import { nameInvalid, nameReserved, tagLikeVersion } from "./state-errors.js";

/**
 * The device name under which a home's own imports and trainings are recorded. No real device may have it.
 */
export const ownDevice = "server";
/** The line under which they are recorded. */
export const ownLine = "models";

/**
 * Names of models, lines, tags and datasets: printable, and without ":", which separates name and version.
 */
const modelPattern = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}:]{1,200}$/u;

const rules = {
  identifier: nameRule,
  model: 'use 1 to 200 printable characters without ":", and no space or "/" at either end',
} as const;

/** @throws NAME_INVALID */
export function checkName(
  kind:
    "fleet" | "device" | "line" | "model" | "tag" | "dataset" | "query" | "rollout" | "batch" | "authority",
  name: string,
): string {
  const isIdentifier = ["fleet", "device", "batch", "authority"].includes(kind);
  const valid = isIdentifier
    ? isName(name)
    : modelPattern.test(name) && name.trim() === name && !name.startsWith("/") && !name.endsWith("/");
  if (!valid) throw nameInvalid(kind, name, isIdentifier ? rules.identifier : rules.model);
  return name;
}

/** Checks a tag, which must not look like a version number. @throws NAME_INVALID */
export function checkTag(tag: string): string {
  checkName("tag", tag);
  if (/^[0-9]+$/.test(tag)) throw tagLikeVersion(tag);
  return tag;
}

/** Checks a device's name before enrolment. @throws NAME_INVALID */
export function checkDeviceName(device: string): string {
  checkName("device", device);
  if (device === ownDevice) throw nameReserved(device);
  return device;
}

export type ModelReferenceText =
  | { readonly kind: "newest"; readonly name: string }
  | { readonly kind: "version"; readonly name: string; readonly version: number }
  | { readonly kind: "tag"; readonly name: string; readonly tag: string };

/**
 * Parses `name`, `name:version` or `name:tag`. The caller also tries the reference as a version id, because a
 * name may look like an id.
 */
export function parseModelReference(reference: string): ModelReferenceText {
  const colon = reference.indexOf(":");
  if (colon < 0) return { kind: "newest", name: reference };
  const name = reference.slice(0, colon);
  const rest = reference.slice(colon + 1);
  return /^[0-9]{1,15}$/.test(rest)
    ? { kind: "version", name, version: Number(rest) }
    : { kind: "tag", name, tag: rest };
}

/** True if text may be a version id or a prefix of one: 8 to 64 hexadecimal digits. */
export function isIdPrefix(text: string): boolean {
  return /^[0-9a-f]{8,64}$/.test(text);
}
