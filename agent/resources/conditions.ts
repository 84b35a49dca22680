/**
 * The power and the link of the device, as its owner states them in a file (docs/reference/agent.md, "Conditions"), for
 * rollouts that ask for some. What is not stated is not allowed.
 */
import * as z from "zod";
import { linkKind } from "../../shared/journal/facts/rollout-limits.js";
import type { ConditionAnswer, ConditionNeeds } from "../../shared/wire/device-conditions.js";
import type { Clock, Files } from "../../shared/ports.js";

const statement = z.object({
  power: z.enum(["external", "battery"]).optional(),
  link: linkKind.optional(),
});
export type Conditions = z.infer<typeof statement>;

export interface ConditionsFile {
  readonly file: string;
  /** Seconds after its last change for which the file is believed. */
  readonly validSeconds: number;
}

const maxFileBytes = 4096;
/** Clocks of file systems may be a little ahead. */
const aheadMs = 60_000;

/** Reads the conditions that are stated now, or why none are. */
export async function readConditions(
  files: Pick<Files, "stat" | "read">,
  clock: Pick<Clock, "now">,
  settings: ConditionsFile | undefined,
): Promise<Conditions | string> {
  if (settings === undefined) return "agent.json names no file (conditions.file)";
  const { file, validSeconds } = settings;
  try {
    const stat = await files.stat(file);
    if (stat === undefined) return `${file} is missing`;
    const ageMs = clock.now() - stat.modifiedMs;
    if (ageMs > validSeconds * 1000 || ageMs < -aheadMs)
      return `${file} was not written in the last ${validSeconds} seconds`;
    if (stat.size > maxFileBytes) return `${file} has more than ${maxFileBytes} bytes`;
    const parsed = statement.safeParse(JSON.parse(new TextDecoder().decode(await files.read(file))));
    return parsed.success ? parsed.data : `${file} is not as it has to be`;
  } catch {
    // It is being replaced, or is not JSON.
    return `${file} cannot be read`;
  }
}

/** Decides whether the conditions that a rollout asks for are stated. Pure. */
export function judgeConditions(
  { power, links }: ConditionNeeds,
  stated: Conditions | string,
): ConditionAnswer {
  const known = typeof stated === "string" ? {} : stated;
  const why = typeof stated === "string" ? ` (${stated})` : "";
  const missing = [
    ...(!power || known.power === "external"
      ? []
      : [
          `external power: ${known.power === undefined ? `its power is not known${why}` : "it runs on battery"}`,
        ]),
    ...(links.length === 0 || (known.link !== undefined && links.includes(known.link))
      ? []
      : [
          `a link by ${links.join(" or ")}: ${known.link === undefined ? `its link is not known${why}` : `it has ${known.link}`}`,
        ]),
  ];
  return missing.length === 0
    ? { allowed: true, because: "" }
    : { allowed: false, because: `it waits for ${missing.join(", and for ")}` };
}
