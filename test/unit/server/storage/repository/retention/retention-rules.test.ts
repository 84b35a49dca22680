/** The language of retention rules: what it accepts, what it refuses and how, and what it prints. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import {
  ageMs,
  maxRuleLength,
  parseRetentionRule,
  periodName,
  periods,
  printRetentionRule,
  type RetentionRule,
} from "../../../../../../server/storage/repository/retention/retention-rules.js";

const dayMs = 24 * 3_600_000;

test("a rule with all parts is parsed as intended", () => {
  const rule = parseRetentionRule("heads, release bases and holds for ever, else 90 days, then one a week");
  assert.deepEqual(rule, {
    bases: false,
    releaseBases: true,
    keepAllFor: { count: 90, unit: "day" },
    stages: [{ every: "week", until: null }],
  });
  assert.equal(
    printRetentionRule(rule),
    "heads, holds, release bases and tags for ever, else 90 days, then one a week",
  );
});

test("variants of rules", () => {
  const printed = (text: string): string => printRetentionRule(parseRetentionRule(text));
  assert.equal(printed("For ever"), "for ever");
  assert.equal(printed("forever"), "for ever");
  assert.equal(printed("heads forever else forever"), "for ever");
  assert.equal(printed("1 day"), "heads, holds and tags for ever, else 1 day, then nothing");
  assert.equal(printed("nothing"), "heads, holds and tags for ever, else nothing");
  assert.equal(
    printed("one a week until 1 year"),
    "heads, holds and tags for ever, else one a week until 1 year, then nothing",
  );
  assert.equal(
    printed(
      "bases for ever, else 12 hours then one an hour until 2 days, then one a day until 3 months, then one a month",
    ),
    "heads, holds, bases and tags for ever, else 12 hours, then one an hour until 2 days, then one a day until 3 months, then one a month",
  );
});

test("text that is not a rule is refused with its position and an example", () => {
  for (const [text, why] of [
    ["", /empty/],
    ["heads", /it ends where/],
    ["heads for ever", /"else"/],
    ["heads for ever, else", /an age/],
    ["90", /hours, days/],
    ["90 dogs", /"dogs" where hours/],
    ["90 days, one a week", /"then"/],
    ["90 days then one a fortnight", /"fortnight"/],
    ["90 days then one a weeks", /"weeks"/],
    ["90 days, then one a week, then one a month", /nothing can follow/],
    ["90 days, then one a week until 90 days", /not later/],
    ["90 days, then one a week until 1 year, then one a month until 300 days", /not later/],
    ["90 days for ever", /"then"/],
    ["for ever and ever", /end of the rule/],
    ["90 days, then nothing, then one a day", /end of the rule/],
    ["9999999999 days", /number/],
    ["999999 years", /1000 years/],
    ["heads; holds", /";"/],
    ["-5 days", /"-"/],
    ["x".repeat(maxRuleLength + 1), /longer/],
    [
      `1 day${Array.from({ length: 9 }, (_, n) => `, then one a day until ${n + 2} days`).join("")}`,
      /more than 8/,
    ],
    ["constructor for ever, else 1 day", /"constructor"/],
  ] as const)
    assert.throws(
      () => parseRetentionRule(text),
      (error: { code?: string; message?: string }) => {
        assert.equal(error.code, "RETENTION_RULE_INVALID");
        assert.match(error.message ?? "", why, text);
        return true;
      },
      text,
    );
});

const age = fc
  .tuple(fc.integer({ min: 1, max: 500 }), fc.constantFrom(...periods))
  .map(([count, unit]) => ({ count, unit }));
const rules: fc.Arbitrary<RetentionRule> = fc
  .record({
    bases: fc.boolean(),
    releaseBases: fc.boolean(),
    keepAllFor: fc.oneof(age, fc.constant({ count: 0, unit: "day" as const })),
    ends: fc.uniqueArray(age, { maxLength: 5, selector: ageMs }),
    every: fc.array(fc.constantFrom(...periods), { minLength: 6, maxLength: 6 }),
    open: fc.boolean(),
  })
  .map(({ bases, releaseBases, keepAllFor, ends, every, open }) => {
    const later = ends.filter((one) => ageMs(one) > ageMs(keepAllFor)).sort((a, b) => ageMs(a) - ageMs(b));
    const stages = [...later, ...(open ? [null] : [])].map((until, index) => ({
      every: every[index] ?? "day",
      until,
    }));
    return { bases, releaseBases, keepAllFor, stages };
  });

test("a printed rule is parsed as the same rule, and any text gives a rule or a typed refusal", () => {
  fc.assert(
    fc.property(rules, (rule) => {
      assert.deepEqual(parseRetentionRule(printRetentionRule(rule)), rule);
    }),
    { numRuns: 500 },
  );
  const token = fc.constantFrom(
    "heads",
    "holds",
    "tags",
    "bases",
    "release",
    "for",
    "ever",
    "else",
    "then",
    "one",
    "a",
    "until",
    "nothing",
    "90",
    "days",
    "week",
    ",",
    "and",
    "x",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(token, { maxLength: 20 }).map((tokens) => tokens.join(" ")),
      ),
      (text) => {
        try {
          assert.deepEqual(
            parseRetentionRule(printRetentionRule(parseRetentionRule(text))),
            parseRetentionRule(text),
          );
        } catch (error) {
          assert.equal((error as { code?: string }).code, "RETENTION_RULE_INVALID", text);
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test("periods are those of the UTC calendar, weeks those of ISO 8601", () => {
  const names = (time: string): string[] => periods.map((period) => periodName(period, Date.parse(time)));
  assert.deepEqual(names("2026-11-21T09:30:00Z"), [
    "2026-11-21T09",
    "2026-11-21",
    "2026-W47",
    "2026-11",
    "2026",
  ]);
  assert.deepEqual(names("2021-01-03T23:59:59.999Z"), [
    "2021-01-03T23",
    "2021-01-03",
    "2020-W53",
    "2021-01",
    "2021",
  ]);
  assert.deepEqual(names("2024-12-30T00:00:00Z"), [
    "2024-12-30T00",
    "2024-12-30",
    "2025-W01",
    "2024-12",
    "2024",
  ]);
  // Every day is in a week of seven days that starts on a Monday.
  const monday = Date.parse("1999-01-04T00:00:00Z");
  for (let day = 0; day < 20_000; day++)
    assert.equal(
      periodName("week", monday + day * dayMs) === periodName("week", monday + (day + 1) * dayMs),
      day % 7 !== 6,
      `${day}`,
    );
});
