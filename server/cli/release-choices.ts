/** Parses what the commands of releases receive: keys of roles, days, and what is published now. */
import { StemmaError } from "../../shared/errors.js";
import { noReleases } from "../../shared/missing-errors.js";
import type { Files } from "../../shared/ports.js";
import {
  defaultValidDays,
  publishedOfSet,
  type PublishedReleases,
  type RoleKeys,
  type Validity,
} from "../../shared/trust/releases/release-change.js";
import type { FleetReleasesAnswer } from "../interface/api/rollouts/release-definitions.js";
import type { ServerOperations } from "../interface/api/server-operations.js";
import { repeated, type Choices } from "./plain-command.js";
import { publicKeyOf } from "./release-signer.js";

const key = (role: string): ReturnType<typeof repeated<string>> =>
  repeated(`<key> a key of ${role}: a key file, or its public key (repeatable)`);

export const keyOptions = {
  key: key("all roles"),
  rootKey: key("the root, which names all others"),
  targetsKey: key("the list of releases"),
  onlineKey: key("what states that the list is the newest"),
  rootThreshold: "<count> signatures that the root needs (1)",
  targetsThreshold: "<count> signatures that the list needs (1)",
  rootDays: "<days> days for which the root is valid (1095)",
} as const;
export type KeyChoices = Choices<unknown, unknown, typeof keyOptions>;

/** @param before keys of the roles for which none is named */
export async function keysOfChoices(files: Files, choices: KeyChoices, before?: RoleKeys): Promise<RoleKeys> {
  const { key, rootKey, targetsKey, onlineKey, rootThreshold, targetsThreshold } = choices;
  const of = async (
    named: readonly string[],
    threshold: string | undefined,
    present: RoleKeys[keyof RoleKeys] | undefined,
    what: string,
  ): Promise<RoleKeys[keyof RoleKeys]> => {
    const given = named.length > 0 ? named : key;
    const publicKeys =
      given.length > 0
        ? await Promise.all(given.map((one) => publicKeyOf(files, one)))
        : (present?.publicKeys ?? []);
    if (publicKeys.length === 0)
      throw new StemmaError("USAGE", `Name a key of ${what}: --key for all roles, or --${what}-key.`);
    return {
      publicKeys,
      threshold:
        threshold === undefined ? (present?.threshold ?? 1) : wholeNumber(threshold, `--${what}-threshold`),
    };
  };
  const online = await of(onlineKey, undefined, before?.timestamp, "online");
  return {
    root: await of(rootKey, rootThreshold, before?.root, "root"),
    targets: await of(targetsKey, targetsThreshold, before?.targets, "targets"),
    snapshot: online,
    timestamp: online,
  };
}

function wholeNumber(text: string, option: string): number {
  const value = Number(text);
  if (/^\d{1,6}$/.test(text) && value >= 1) return value;
  throw new StemmaError("USAGE", `${option} ${text} is not a whole number from 1. Correct it.`);
}

export function validityOf(
  nowMs: number,
  { rootDays, days }: Partial<Pick<KeyChoices, "rootDays">> & { readonly days?: string | undefined } = {},
): Validity {
  const given = days === undefined ? undefined : validDays(days);
  return {
    nowMs,
    days: {
      ...defaultValidDays,
      ...(rootDays === undefined ? {} : { root: wholeNumber(rootDays, "--root-days") }),
      ...(given === undefined ? {} : { targets: given, snapshot: given, timestamp: given }),
    },
  };
}

/** A list that is valid for longer would keep what is revoked later for as long. */
const maxValidDays = 3650;

function validDays(text: string): number {
  const days = wholeNumber(text, "--days");
  if (days <= maxValidDays) return days;
  throw new StemmaError("USAGE", `--days ${text} is more than ${maxValidDays}. Choose fewer days.`);
}

/** @throws RELEASE_UNKNOWN where nothing was published */
export function published(
  { metadata }: FleetReleasesAnswer,
  fleet: string,
): NonNullable<FleetReleasesAnswer["metadata"]> {
  if (metadata !== null) return metadata;
  throw noReleases(fleet);
}

/** Returns the releases that are published now. @throws RELEASE_UNKNOWN where nothing was */
export async function publishedOf(
  operations: Pick<ServerOperations, "releases">,
  fleet: string,
): Promise<PublishedReleases> {
  return publishedOfSet(published(await operations.releases({ fleet }), fleet));
}
