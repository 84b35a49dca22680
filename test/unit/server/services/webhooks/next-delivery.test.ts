import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  cursorAt,
  deliveryLimits,
  nextDelivery,
  type ReadJournal,
} from "../../../../../server/services/webhooks/next-delivery.js";
import type { Cursor } from "../../../../../server/services/webhooks/webhook-store.js";

interface TestFact {
  readonly type: string;
  readonly [member: string]: unknown;
}

function journalOf(facts: readonly TestFact[]): ReadJournal {
  return {
    head: () => ({ length: facts.length }),
    readEntry: (position) => Promise.resolve(Buffer.from(JSON.stringify(facts[position]))),
    decode: (entry) => JSON.parse(Buffer.from(entry).toString("utf8")) as TestFact,
  };
}

const numbered = (count: number, type = "stored"): TestFact[] =>
  Array.from({ length: count }, (_, at) => ({ type, at }));
/** The positions that a webhook gets until it has everything. */
async function positions(
  facts: readonly TestFact[],
  cursor?: Cursor,
  types?: readonly string[],
): Promise<readonly number[]> {
  const got: number[] = [];
  let at = cursor;
  for (;;) {
    const delivery = await nextDelivery({ types }, journalOf(facts), at);
    if (delivery === undefined) return got;
    got.push(...delivery.facts.map((fact) => (fact as { readonly position: number }).position));
    at = delivery.next;
  }
}

const upTo = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, at) => from + at);

describe("what a webhook gets next", () => {
  it("is every fact once, in order, in parts of bounded size", async () => {
    const facts = numbered(2 * deliveryLimits.facts + 7);
    assert.deepEqual(await positions(facts), upTo(0, facts.length));
    const first = await nextDelivery({}, journalOf(facts), undefined);
    assert.equal(first?.facts.length, deliveryLimits.facts);
    const large = Array.from({ length: 6 }, () => ({ type: "x", text: "y".repeat(100_000) }));
    assert.deepEqual(await positions(large), upTo(0, 6));
    const second = await nextDelivery({}, journalOf(large), await cursorAt(journalOf(large), 1));
    assert.deepEqual([second?.from, second?.facts.length], [1, 2]);
  });

  it("is one fact where that alone is larger than a request may be", async () => {
    const huge = [{ type: "x", text: "y".repeat(2 * deliveryLimits.bytes) }, { type: "x" }];
    assert.deepEqual(await positions(huge), [0, 1]);
  });

  it("is only of the types that it takes, and passes over the others", async () => {
    const facts = [...numbered(30), { type: "judged" }, ...numbered(10), { type: "judged" }];
    assert.deepEqual(await positions(facts, undefined, ["judged"]), [30, 41]);
    const none = await nextDelivery({ types: ["nothing"] }, journalOf(facts), undefined);
    assert.deepEqual([none?.facts, none?.next.position], [[], 42]);
  });

  it("has no hash of a device's token", async () => {
    const delivery = await nextDelivery({}, journalOf([{ type: "enrolled", tokenHash: "ab" }]), undefined);
    assert.deepEqual(delivery?.facts, [{ position: 0, type: "enrolled" }]);
  });

  it("is nothing where it has everything", async () => {
    const facts = numbered(3);
    assert.equal(await nextDelivery({}, journalOf(facts), await cursorAt(journalOf(facts), 3)), undefined);
  });
});

describe("a webhook of a server that was put back", () => {
  const old = numbered(10);
  const restored = (at: number): TestFact => ({ type: "restored", at });

  it("goes on with the restore, where the new journal is shorter, or longer", async () => {
    const cursor = await cursorAt(journalOf(old), 10);
    const shorter = [...old.slice(0, 6), restored(1)];
    assert.deepEqual(await positions(shorter, cursor), [6]);
    const longer = [...shorter, ...numbered(20, "other")];
    assert.deepEqual(await positions(longer, cursor), upTo(6, 27));
  });

  it("misses no fact between two restores that it slept through", async () => {
    const cursor = await cursorAt(journalOf(old), 10);
    const twice = [
      ...old.slice(0, 4),
      restored(1),
      ...numbered(3, "other"),
      restored(2),
      ...numbered(5, "more"),
    ];
    assert.deepEqual(await positions(twice, cursor), upTo(4, twice.length));
  });

  it("gets nothing again from before a restore that it knows", async () => {
    const once = [...old.slice(0, 4), restored(1), ...numbered(5, "other")];
    const cursor = await cursorAt(journalOf(once), once.length);
    const again = [...once.slice(0, 7), restored(2), { type: "new" }];
    assert.deepEqual(await positions(again, cursor), [7, 8]);
    const before = [...old.slice(0, 2), restored(3)];
    assert.deepEqual(await positions(before, cursor), [2]);
  });

  it("goes back to the beginning where no restore was declared", async () => {
    const cursor = await cursorAt(journalOf(old), 10);
    assert.deepEqual(await positions(old.slice(0, 5), cursor), upTo(0, 5));
  });
});
