/** The event hub: every listener gets later events, and a slow one costs bounded memory. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import { eventHub } from "../../../../../server/interface/events/event-hub.js";

describe("the event hub", () => {
  const event = (device: string): Parameters<ReturnType<typeof eventHub>["emit"]>[0] => ({
    event: "device-disconnected",
    fleet: "f",
    device,
  });

  it("delivers later events to every listener, with their time, until the listener stops", async () => {
    const hub = eventHub({ now: () => 7 });
    const stop = new AbortController();
    hub.emit(event("before"));
    const [a, b] = [hub.listen(stop.signal), hub.listen(stop.signal)];
    hub.emit(event("x"));
    hub.emit(event("y"));
    assert.equal(hub.listeners, 2);
    stop.abort();
    for (const events of [a, b]) {
      const seen: ServerEvent[] = [];
      for await (const one of events) seen.push(one);
      assert.deepEqual(seen, [
        { event: "device-disconnected", fleet: "f", device: "x", atMs: 7 },
        { event: "device-disconnected", fleet: "f", device: "y", atMs: 7 },
      ]);
    }
    assert.equal(hub.listeners, 0);
  });

  it("drops the oldest events of a slow listener, and reports how many", async () => {
    const hub = eventHub({ now: () => 7 }, 2);
    const stop = new AbortController();
    const events = hub.listen(stop.signal);
    for (const device of ["a", "b", "c", "d", "e"]) hub.emit(event(device));
    stop.abort();
    const seen: string[] = [];
    for await (const one of events)
      seen.push(one.event === "missed" ? `missed ${one.count}` : "device" in one ? one.device : one.event);
    assert.deepEqual(seen, ["missed 3", "d", "e"]);
  });

  it("listens to nothing where the signal is aborted already", async () => {
    const hub = eventHub({ now: () => 7 });
    for await (const one of hub.listen(AbortSignal.abort())) assert.fail(one.event);
    assert.equal(hub.listeners, 0);
  });
});
