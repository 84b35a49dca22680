/**
 * Retention over any lineage: which versions always stay, repeated plans agree, and passing time only removes
 * versions.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import "../../../../../helpers/property-seed.js";
import {
  planRetention,
  printScope,
  ruleFor,
  type RetainableVersion,
  type ScopedRule,
} from "../../../../../../server/storage/repository/retention/retention-plan.js";
import {
  ageMs,
  parseRetentionRule,
  periodName,
} from "../../../../../../server/storage/repository/retention/retention-rules.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";

const dayMs = 24 * 3_600_000;
const nowMs = Date.parse("2026-11-21T09:30:00Z");
const numRuns = process.env["STEMMA_TEST_FULL"] === "1" ? 5000 : 400;
const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;

const texts = [
  "for ever",
  "nothing",
  "90 days",
  "bases for ever, else nothing",
  "heads, release bases and holds for ever, else 90 days, then one a week",
  "1 day, then one a day until 20 days, then one a week until 100 days, then one a month",
  "bases and release bases for ever, else 5 days, then one a month until 1 year",
  "one an hour",
  "2 weeks, then one a day until 16 days, then one a year",
  "bases for ever, else 3 days, then one a week until 4 days",
];
const rule = fc.constantFrom(...texts).map(parseRetentionRule);
const scopes = fc
  .record({
    fleet: fc.option(rule, { nil: undefined }),
    line: fc.option(rule, { nil: undefined }),
    name: fc.option(rule, { nil: undefined }),
  })
  .map(({ fleet, line, name }): readonly ScopedRule[] => [
    ...(fleet === undefined ? [] : [{ scope: { of: "fleet" as const }, rule: fleet }]),
    ...(line === undefined ? [] : [{ scope: { of: "line" as const, line: "soh" }, rule: line }]),
    ...(name === undefined ? [] : [{ scope: { of: "name" as const, name: "b" }, rule: name }]),
  ]);
const versions = fc
  .array(
    fc.record({
      name: fc.constantFrom("a", "b"),
      device: fc.constantFrom("server", "van"),
      line: fc.constantFrom("soh", "cam"),
      agoMs: fc.oneof(
        fc.integer({ min: -dayMs, max: 30 * dayMs }),
        fc.integer({ min: 0, max: 900 * dayMs }),
        fc.integer({ min: 0, max: 20 }).map((days) => days * dayMs),
      ),
      bases: fc.array(fc.nat(39), { maxLength: 2 }),
      tagged: fc.nat(9),
      distributed: fc.nat(5),
      needed: fc.nat(9),
    }),
    { maxLength: 40 },
  )
  .map((drawn): readonly RetainableVersion[] =>
    drawn.map(({ name, device, line, agoMs, bases, tagged, distributed, needed }, index) => ({
      versionId: id(index),
      name,
      version: index + 1,
      device,
      line,
      position: index,
      recordedAtMs: nowMs - agoMs,
      bases: bases.filter((base) => base < index).map(id),
      tags: tagged === 0 ? ["best"] : [],
      distributed: distributed === 0,
      ...(needed === 0
        ? { needed: { reason: "held" as const, because: "an incident" } }
        : needed === 1
          ? { needed: { reason: "in-use" as const, because: "active" } }
          : {}),
    })),
  );
const ids = (plan: readonly { readonly version: RetainableVersion }[]): Hash[] =>
  plan.map(({ version }) => version.versionId);

test("every version is judged once, in journal order; held, used, tagged ones and heads stay", () => {
  fc.assert(
    fc.property(versions, scopes, (all, rules) => {
      const { keep, retire } = planRetention(all, rules, nowMs);
      assert.deepEqual(
        [...ids(keep), ...ids(retire)].sort(),
        ids(all.map((version) => ({ version }))).sort(),
      );
      for (const list of [keep, retire])
        assert.deepEqual(
          list.map(({ version }) => version.position),
          list.map(({ version }) => version.position).sort((a, b) => a - b),
        );
      const gone = new Set(ids(retire));
      for (const version of all) {
        const newer = all.some(
          (other) =>
            other.position > version.position &&
            other.name === version.name &&
            other.line === version.line &&
            other.device === version.device,
        );
        if (version.needed !== undefined || version.tags.length > 0 || !newer)
          assert.ok(!gone.has(version.versionId));
        const scoped = ruleFor(rules, version);
        if (
          scoped === undefined ||
          scoped.rule.keepAllFor === null ||
          (scoped.rule.releaseBases && version.distributed)
        )
          assert.ok(!gone.has(version.versionId));
        else if (nowMs - version.recordedAtMs <= ageMs(scoped.rule.keepAllFor))
          assert.ok(!gone.has(version.versionId));
      }
    }),
    { numRuns },
  );
});

test("retiring any part of a plan does not change the rest of it", () => {
  fc.assert(
    fc.property(versions, scopes, fc.infiniteStream(fc.boolean()), (all, rules, draws) => {
      const plan = planRetention(all, rules, nowMs);
      const going = new Set(ids(plan.retire));
      const done = new Set([...going].filter(() => draws.next().value === true));
      const later = planRetention(
        all.filter(({ versionId }) => !done.has(versionId)),
        rules,
        nowMs,
      );
      assert.deepEqual(
        ids(later.retire),
        [...going].filter((one) => !done.has(one)),
      );
      assert.deepEqual(later.keep, plan.keep);
      assert.deepEqual(
        planRetention(
          plan.keep.map(({ version }) => version),
          rules,
          nowMs,
        ).retire,
        [],
      );
    }),
    { numRuns },
  );
});

test("a version retired at one moment is retired at every later one", () => {
  fc.assert(
    fc.property(versions, scopes, fc.integer({ min: 0, max: 800 * dayMs }), (all, rules, laterMs) => {
      const later = new Set(ids(planRetention(all, rules, nowMs + laterMs).retire));
      for (const versionId of ids(planRetention(all, rules, nowMs).retire))
        assert.ok(later.has(versionId), versionId);
    }),
    { numRuns },
  );
});

test("thinning leaves exactly one of every period", () => {
  fc.assert(
    fc.property(
      versions,
      fc.constantFrom(
        ...("hour day week month year".split(" ") as ("hour" | "day" | "week" | "month" | "year")[]),
      ),
      (all, every) => {
        const plain = all.map(({ needed: _needed, ...version }) => ({ ...version, tags: [] }));
        const { keep } = planRetention(
          plain,
          [
            {
              scope: { of: "fleet" },
              rule: {
                bases: false,
                releaseBases: false,
                keepAllFor: { count: 10, unit: "day" },
                stages: [{ every, until: null }],
              },
            },
          ],
          nowMs,
        );
        const key = (version: RetainableVersion): string =>
          `${version.device} ${version.line} ${version.name} ${periodName(every, version.recordedAtMs)}`;
        const old = plain.filter((version) => nowMs - version.recordedAtMs > 10 * dayMs);
        const kept = keep.filter(({ version }) => old.includes(version));
        for (const period of new Set(old.map(key))) {
          // A head stays as a head, in addition to the one version kept in its period.
          assert.ok(
            kept.filter(
              ({ version, reason }) => key(version) === period && (reason === "one-of" || reason === "head"),
            ).length >= 1,
            period,
          );
          assert.ok(
            kept.filter(({ version, reason }) => key(version) === period && reason === "one-of").length <= 1,
            period,
          );
          const oldest = old
            .filter((version) => key(version) === period)
            .sort((a, b) => a.recordedAtMs - b.recordedAtMs || a.position - b.position)[0];
          assert.ok(kept.some(({ version }) => version.versionId === oldest?.versionId));
        }
        for (const { version, reason } of kept)
          if (reason !== "head") assert.equal(reason, "one-of", version.versionId);
      },
    ),
    { numRuns },
  );
});

test("a kept version keeps its direct bases when their rule requires it, but not their bases", () => {
  const version = (n: number, bases: readonly number[], agoDays: number): RetainableVersion => ({
    versionId: id(n),
    name: "m",
    version: n,
    device: "van",
    line: "soh",
    position: n,
    recordedAtMs: nowMs - agoDays * dayMs,
    bases: bases.map(id),
    tags: [],
    distributed: false,
  });
  const chain = [version(1, [], 9), version(2, [1], 8), version(3, [2], 7), version(4, [3], 1)];
  const plan = (text: string): string[] =>
    planRetention(chain, [{ scope: { of: "fleet" }, rule: parseRetentionRule(text) }], nowMs).keep.map(
      ({ version: { version: number }, reason }) => `${number} ${reason}`,
    );
  assert.deepEqual(plan("bases for ever, else 2 days"), ["3 base", "4 head"]);
  assert.deepEqual(plan("2 days"), ["4 head"]);
});

test("the most specific rule applies, and the plan names it", () => {
  const rules: readonly ScopedRule[] = [
    { scope: { of: "fleet" }, rule: parseRetentionRule("1 day") },
    { scope: { of: "line", line: "soh" }, rule: parseRetentionRule("2 days") },
    { scope: { of: "name", name: "m" }, rule: parseRetentionRule("3 days") },
  ];
  const scopeOf = (name: string, line: string): string => printScope(ruleFor(rules, { name, line })!.scope);
  assert.deepEqual(
    [scopeOf("m", "soh"), scopeOf("m", "cam"), scopeOf("x", "soh"), scopeOf("x", "cam")],
    ["the name m", "the name m", "the line soh", "the fleet"],
  );
  assert.equal(ruleFor(rules.slice(1), { name: "x", line: "cam" }), undefined);
});
