import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RecentEvents, recentLog } from "../../../../shared/adapters/recent-log.js";
import type { LogLevel } from "../../../../shared/adapters/log-forms.js";
import { WaitableLog } from "../../../helpers/agent-fixtures.js";

const clock = { now: () => 5 };

describe("the agent's log", () => {
  it("drops what is below its level of now, in the log and in what it remembers", () => {
    const base = new WaitableLog();
    const recent = new RecentEvents(clock);
    let level: LogLevel = "warn";
    const log = recentLog(base, recent, () => level);
    const child = log.child({ part: "x" });
    log.info("a");
    child.warn("b", { text: "t", object: {}, bad: NaN });
    level = "debug";
    log.debug("c");
    assert.deepEqual(
      base.events.map(({ event }) => event),
      ["b", "c"],
    );
    const { events, logged, hasMore } = recent.page({ limit: 9, maxBytes: 1e6 });
    assert.deepEqual([logged, hasMore], [2, false]);
    assert.deepEqual(events, [
      { number: 1, atMs: 5, level: "warn", event: "b", fields: { part: "x", text: "t" } },
      { number: 2, atMs: 5, level: "debug", event: "c", fields: {} },
    ]);
    assert.deepEqual(recent.page({ limit: 9, maxBytes: 1e6, level: "warn" }).events, [events[0]]);
  });

  it("remembers a bounded number of bounded events, and answers no more than fits", () => {
    const recent = new RecentEvents(clock);
    const text = "x".repeat(100_000);
    for (let at = 0; at < 5000; at++) recent.remember("info", "e", { text, at });
    const all = recent.page({ limit: 1e6, maxBytes: 1e9 });
    assert.equal(all.logged, 5000);
    assert.ok(JSON.stringify(all.events).length < 600 * 1024);
    const page = recent.page({ limit: 500, maxBytes: 40 * 1024 });
    assert.ok(JSON.stringify(page.events).length <= 40 * 1024 + 2);
    assert.deepEqual([page.hasMore, page.events.at(-1)?.number], [true, 5000]);
    const before = recent.page({ limit: 1, maxBytes: 1e6, before: page.events[0]?.number });
    assert.equal(before.events[0]?.number, (page.events[0]?.number ?? 0) - 1);
  });
});
