/** The options of `stemma rollout plan|create` that make a policy: they follow from the table of its members. */
import { InvalidArgumentError } from "commander";
import { StemmaError } from "../../../../shared/errors.js";
import {
  liveTrialMembers,
  policyMembers,
  type PolicyMember,
  type PolicyOption,
} from "../../../../shared/journal/facts/rollout-policy.js";
import type { OperationInput } from "../../../interface/api/server-operations.js";
import { given } from "../../plain-command.js";
import { parseBytes, parseDuration } from "../../quantities.js";

type Policy = NonNullable<OperationInput<"planRollout">["policy"]>;
type Members = readonly (readonly [string, PolicyMember])[];

const members: Members = Object.entries(policyMembers);
const liveMembers: Members = Object.entries(liveTrialMembers);
const liveDefaults = Object.fromEntries(liveMembers.map(([name, member]) => [name, member.default]));

/** The readers of an option's text, by its unit. */
const readers = {
  number: (text: string): number => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("It takes a number.");
    return value;
  },
  minutes: (text: string): number => (text === "0" ? 0 : parseDuration(text) / 60_000),
  bytes: parseBytes,
  mebibytes: (text: string): number => (text === "0" ? 0 : parseBytes(text) / 2 ** 20),
  words: (text: string): readonly string[] => text.split(",").map((each) => each.trim()),
  lines: (text: string, before: readonly string[] = []): readonly string[] => [...before, text],
};

/** The options by their names; those of a trial on live inputs stand where the trial stands in the table. */
export const optionsOfPolicy = Object.fromEntries(
  members
    .flatMap(([name, member]) => (name === "live" ? liveMembers : [[name, member] as const]))
    .flatMap(([, { option }]) => (option === undefined ? [] : [[option.name, specOf(option)]])),
);

function specOf({ text, choices, unit }: PolicyOption): object {
  // Absent and not false: a policy has only what was asked for.
  if (!text.startsWith("<")) return { text, default: undefined };
  return choices === undefined ? { text, read: readers[unit ?? "number"] } : { text, choices };
}

/** @param choices the values of the options, by their names @throws USAGE */
export function policyOfChoices(choices: Readonly<Record<string, unknown>>): Policy {
  return { ...valuesOf(members, choices), ...liveTrialOf(choices) };
}

/** The members that were given. */
function valuesOf(table: Members, choices: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return given(
    table.map(([name, { option }]) => {
      const value = option && choices[option.name];
      return [name, option?.choices?.length === 1 && value !== undefined ? true : value];
    }),
  );
}

function liveTrialOf(choices: Readonly<Record<string, unknown>>): Policy {
  const live = valuesOf(liveMembers, choices);
  if ("inputs" in live) return { live: { ...liveDefaults, ...live } } as Policy;
  if (Object.keys(live).length > 0)
    throw new StemmaError(
      "USAGE",
      "--live-within and --live-max-failed belong to a trial on live inputs. Add --live with a number of inputs.",
    );
  return {};
}
