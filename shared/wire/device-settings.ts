/**
 * The settings that a server may change on a device while its agent runs, by key. Everything else is changed on the
 * device only: it would give whoever has the server more than its owner allowed there. Pure. (docs/devices.md)
 */
import { logLevels } from "../adapters/log-forms.js";
import { StemmaError } from "../errors.js";

export type SettingValue = string | number;
export type DeviceSettings = Readonly<Record<string, SettingValue>>;

interface SettingKind {
  /** A description of its effect, for people. */
  readonly about: string;
  /** Possible texts; absent: a whole number between `least` and `most`. */
  readonly texts?: readonly string[];
  readonly least?: number;
  readonly most?: number;
}

const least = 1024;
const most = 10_000_000_000;

export const settingKinds: Readonly<Record<string, SettingKind>> = {
  "log.level": { about: "which events the agent logs", texts: logLevels },
  "report.bytesPerSecond": {
    about: "bytes a second that the agent sends of its models at most; its profile's limit stays in force",
    least,
    most,
  },
  "fetch.bytesPerSecond": {
    about: "bytes a second that the server sends of models to the device at most",
    least,
    most,
  },
  training: {
    about: "off: no training begins by itself; one that a person requests does",
    texts: ["on", "off"],
  },
};

/** Names of settings with what they take, for help and errors. */
export function describeSettings(): readonly string[] {
  return Object.entries(settingKinds).map(([key, kind]) => `${key} (${describeValues(kind)}): ${kind.about}`);
}

function describeValues({ texts, least: min, most: max }: SettingKind): string {
  return texts?.join(", ") ?? `a whole number from ${min} to ${max}`;
}

/**
 * The value of a setting, read from text where it is a number.
 * @throws SETTING_INVALID
 */
export function checkSetting(key: string, value: unknown): SettingValue {
  const kind = Object.hasOwn(settingKinds, key) ? settingKinds[key] : undefined;
  if (kind === undefined)
    throw new StemmaError(
      "SETTING_INVALID",
      `${JSON.stringify(key.slice(0, 80))} is not a setting that a server can change. These are: ${Object.keys(settingKinds).join(", ")}.`,
    );
  if (kind.texts !== undefined) {
    const text = kind.texts.find((one) => one === value);
    if (text !== undefined) return text;
  } else {
    const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
    if (
      typeof number === "number" &&
      Number.isInteger(number) &&
      number >= (kind.least ?? 0) &&
      number <= (kind.most ?? 0)
    )
      return number;
  }
  const shown = (JSON.stringify(value) ?? "nothing").slice(0, 80);
  throw new StemmaError(
    "SETTING_INVALID",
    `The setting ${key} cannot be ${shown}: it takes ${describeValues(kind)}.`,
  );
}

/** @throws SETTING_INVALID */
export function checkSettings(value: unknown): DeviceSettings {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new StemmaError("SETTING_INVALID", "Settings are an object of values by key.");
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, checkSetting(key, one)]));
}

/** Settings after a change; null removes one, so that what is configured on the device counts again. */
export function settingsAfter(
  known: DeviceSettings,
  changes: Readonly<Record<string, SettingValue | null>>,
): DeviceSettings {
  const after = new Map(Object.entries(known));
  for (const [key, value] of Object.entries(changes))
    if (value === null) after.delete(key);
    else after.set(key, value);
  return Object.fromEntries([...after].sort(([a], [b]) => (a < b ? -1 : 1)));
}

export function areSameSettings(a: DeviceSettings, b: DeviceSettings): boolean {
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key])
  );
}
