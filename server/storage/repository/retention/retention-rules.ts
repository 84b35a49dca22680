/**
 * The language of retention rules: parsing, checking and printing. Pure; retention-plan.ts applies rules to
 * versions.
 *
 *     RULE    = [ WHAT "for ever" [","] "else" ] REST   |   "for ever"
 *     WHAT    = "heads" | "holds" | "tags" | "bases" | "release bases"      joined by "," and "and"
 *     REST    = AGE { "then" STAGE }   |   STAGE { "then" STAGE }   |   "for ever"
 *     STAGE   = "one a" PERIOD [ "until" AGE ]   |   "nothing"
 *     AGE     = NUMBER ("hours" | "days" | "weeks" | "months" | "years")
 *     PERIOD  = "hour" | "day" | "week" | "month" | "year"
 *
 * "heads, release bases and holds for ever, else 90 days, then one a week": every version is kept for 90
 * days; of older ones one version a week is kept. Heads, holds and tags are kept whatever the rule; the
 * printed rule names them for clarity. As an age a month is 30 days and a year 365 (so the package ms, with
 * years of 365.25 days and no months, cannot parse ages); periods are those of the UTC calendar, weeks begin
 * on Monday.
 */
import { StemmaError } from "../../../../shared/errors.js";

export const periods = ["hour", "day", "week", "month", "year"] as const;
export type Period = (typeof periods)[number];

/** An age such as "90 days". */
export interface Age {
  readonly count: number;
  readonly unit: Period;
}

/** A stage that keeps one version per period, until an age or (null) for ever. */
export interface ThinningStage {
  readonly every: Period;
  readonly until: Age | null;
}

export interface RetentionRule {
  /** True if the direct bases of kept versions are kept. */
  readonly bases: boolean;
  /** True if versions that were ever assigned to a device are kept. */
  readonly releaseBases: boolean;
  /** Versions up to this age are kept; null keeps every version for ever. */
  readonly keepAllFor: Age | null;
  /**
   * Older versions are thinned in stages; each stage works on the versions that the previous one kept.
   * Versions older than the last stage's `until` are retired.
   */
  readonly stages: readonly ThinningStage[];
}

const hourMs = 3_600_000;
const periodMs: Readonly<Record<Period, number>> = {
  hour: hourMs,
  day: 24 * hourMs,
  week: 7 * 24 * hourMs,
  month: 30 * 24 * hourMs,
  year: 365 * 24 * hourMs,
};
export const maxRuleLength = 512;
const maxStages = 8;
const maxAgeMs = 1000 * periodMs.year;

/** Milliseconds of an age. */
export function ageMs({ count, unit }: Age): number {
  return count * periodMs[unit];
}

const example = '"heads, release bases and holds for ever, else 90 days, then one a week"';

function invalid(text: string, why: string): StemmaError {
  return new StemmaError(
    "RETENTION_RULE_INVALID",
    `The retention rule ${JSON.stringify(text.slice(0, 200))} is invalid: ${why}. A valid rule is, for example, ${example}; \`stemma storage retention set --help\` describes the language.`,
    { rule: text.slice(0, maxRuleLength) },
  );
}

/** Reads a rule word by word. A comma counts as a word, and a line end as a space. */
class RuleReader {
  readonly #words: readonly string[];
  #at = 0;
  constructor(readonly text: string) {
    if (text.length > maxRuleLength) throw invalid(text, `it is longer than ${maxRuleLength} characters`);
    const strange = /[^a-z0-9,\s]/i.exec(text);
    if (strange !== null) throw invalid(text, `${JSON.stringify(strange[0])} is not allowed in it`);
    this.#words =
      text
        .toLowerCase()
        .replaceAll("forever", "for ever")
        .match(/[a-z]+|[0-9]+|,/g) ?? [];
    if (this.#words.length === 0) throw invalid(text, "it is empty");
  }
  get hasMore(): boolean {
    return this.#at < this.#words.length;
  }
  peek(ahead = 0): string | undefined {
    return this.#words[this.#at + ahead];
  }
  /** Consumes these words if they are next. */
  take(...words: readonly string[]): boolean {
    if (!words.every((word, index) => this.peek(index) === word)) return false;
    this.#at += words.length;
    return true;
  }
  next(): string | undefined {
    const word = this.peek();
    this.#at++;
    return word;
  }
  errorExpecting(expected: string): StemmaError {
    return invalid(
      this.text,
      `${this.hasMore ? `it has ${JSON.stringify(this.peek())}` : "it ends"} where ${expected} is expected`,
    );
  }
}

/** @throws RETENTION_RULE_INVALID with the reason and an example of a valid rule */
export function parseRetentionRule(text: string): RetentionRule {
  const words = new RuleReader(text);
  const everything: RetentionRule = { bases: false, releaseBases: false, keepAllFor: null, stages: [] };
  if (words.take("for", "ever")) {
    if (words.hasMore) throw words.errorExpecting("the end of the rule");
    return everything;
  }
  const kept = readKept(words);
  const rest = readRest(words);
  if (words.hasMore) throw words.errorExpecting("the end of the rule");
  checkOrder(text, rest);
  return { ...kept, ...rest };
}

function readKept(words: RuleReader): Pick<RetentionRule, "bases" | "releaseBases"> {
  let bases = false;
  let releaseBases = false;
  let named = 0;
  for (;;) {
    if (words.take("release", "bases")) releaseBases = true;
    else if (words.take("bases")) bases = true;
    else if (!(words.take("heads") || words.take("holds") || words.take("tags"))) break;
    named++;
    while (words.take(",") || words.take("and"));
  }
  if (named === 0) return { bases, releaseBases };
  if (!words.take("for", "ever"))
    throw words.errorExpecting('heads, holds, tags, bases, release bases or "for ever"');
  words.take(",");
  if (!words.take("else"))
    throw words.errorExpecting('"else", and what happens to everything that is not named before it');
  return { bases, releaseBases };
}

function readRest(words: RuleReader): Pick<RetentionRule, "keepAllFor" | "stages"> {
  if (words.take("for", "ever")) return { keepAllFor: null, stages: [] };
  const stages: ThinningStage[] = [];
  const begins = /^[0-9]+$/.test(words.peek() ?? "");
  const keepAllFor = begins ? readAge(words) : { count: 0, unit: "day" as const };
  for (let first = !begins; first || words.hasMore; first = false) {
    if (!first) {
      words.take(",");
      if (!words.take("then")) throw words.errorExpecting('"then"');
    }
    if (words.take("nothing")) return { keepAllFor, stages };
    if (stages.length === maxStages) throw invalid(words.text, `it has more than ${maxStages} stages`);
    stages.push(readStage(words));
  }
  return { keepAllFor, stages };
}

function readStage(words: RuleReader): ThinningStage {
  if (!(words.take("one", "a") || words.take("one", "an")))
    throw words.errorExpecting('an age, "one a week" or "nothing"');
  const every = periodOf(words.peek());
  if (every === undefined || every !== words.peek()) throw words.errorExpecting(periods.join(", "));
  words.next();
  return { every, until: words.take("until") ? readAge(words) : null };
}

function readAge(words: RuleReader): Age {
  if (!/^[0-9]{1,9}$/.test(words.peek() ?? ""))
    throw words.errorExpecting("a number of days, weeks, months or years");
  const count = Number(words.next());
  const unit = periodOf(words.peek());
  if (unit === undefined) throw words.errorExpecting("hours, days, weeks, months or years");
  words.next();
  if (count * periodMs[unit] > maxAgeMs)
    throw invalid(words.text, `${count} ${unit}s is more than 1000 years; write "for ever"`);
  return { count, unit };
}

function periodOf(word: string | undefined): Period | undefined {
  return periods.find((period) => word === period || word === `${period}s`);
}

/** Checks that each stage ends later than the previous one. @throws RETENTION_RULE_INVALID */
function checkOrder(
  text: string,
  { keepAllFor, stages }: Pick<RetentionRule, "keepAllFor" | "stages">,
): void {
  let before = keepAllFor;
  stages.forEach(({ until }, index) => {
    if (until === null) {
      if (index < stages.length - 1)
        throw invalid(
          text,
          `after "one a ${stages[index]?.every}" nothing can follow, unless that stage has an "until"`,
        );
      return;
    }
    if (before !== null && ageMs(until) <= ageMs(before))
      throw invalid(text, `"until ${printAge(until)}" is not later than ${printAge(before)} before it`);
    before = until;
  });
}

export function printAge({ count, unit }: Age): string {
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

/** The complete text of a rule; parsing it gives the same rule. */
export function printRetentionRule({ bases, releaseBases, keepAllFor, stages }: RetentionRule): string {
  if (keepAllFor === null) return "for ever";
  const named = ["heads", "holds", ...(bases ? ["bases"] : []), ...(releaseBases ? ["release bases"] : [])];
  const steps = stages.map(
    ({ every, until }) =>
      `one a${every === "hour" ? "n" : ""} ${every}${until === null ? "" : ` until ${printAge(until)}`}`,
  );
  const ends = stages.length === 0 || stages.at(-1)?.until !== null;
  const rest = [
    ...(keepAllFor.count === 0 ? [] : [printAge(keepAllFor)]),
    ...steps,
    ...(ends ? ["nothing"] : []),
  ].join(", then ");
  return `${named.join(", ")} and tags for ever, else ${rest}`;
}

/**
 * The name of the UTC calendar period that contains a time: "2026-11-21T09", "2026-11-21", "2026-W47",
 * "2026-11", "2026".
 */
export function periodName(every: Period, atMs: number): string {
  const iso = new Date(atMs).toISOString();
  // Cut from the end, because years beyond 9999 have a sign and six digits.
  switch (every) {
    case "hour":
      return iso.slice(0, -11);
    case "day":
      return iso.slice(0, -14);
    case "week":
      return weekName(atMs);
    case "month":
      return iso.slice(0, -17);
    case "year":
      return iso.slice(0, -20);
  }
}

/** ISO 8601: the week belongs to the year of its Thursday. */
function weekName(atMs: number): string {
  const date = new Date(atMs);
  const thursday = new Date(
    Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 3 - ((date.getUTCDay() + 6) % 7)),
  );
  const dayOfYear = Math.floor(
    (thursday.getTime() - Date.UTC(thursday.getUTCFullYear(), 0, 1)) / periodMs.day,
  );
  return `${thursday.getUTCFullYear()}-W${String(1 + Math.floor(dayOfYear / 7)).padStart(2, "0")}`;
}
