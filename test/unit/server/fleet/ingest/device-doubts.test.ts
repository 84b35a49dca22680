/** Which devices do not believe the server, from what they send. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { DeviceDoubts } from "../../../../../server/fleet/ingest/sessions/device-doubts.js";
import { serverBelieved, serverDoubted } from "../../../../../shared/wire/device-events.js";

const event = (name: string, text = "why") => ({ type: "event", line: "", name, text }) as const;

test("a doubt is shown since its first report, until the device believes the server", () => {
  const doubts = new DeviceDoubts();
  doubts.heard("car", event(serverDoubted), 5);
  doubts.heard("car", { type: "birth" }, 6);
  doubts.heard("car", event("model-lost"), 6);
  doubts.heard("car", { type: "commandResult" }, 6);
  doubts.heard("car", event(serverDoubted, "why again"), 7);
  assert.deepEqual(doubts.get("car"), { sinceMs: 5, text: "why again" });
  assert.equal(doubts.get("van"), undefined);
  doubts.heard("car", event(serverBelieved), 8);
  assert.equal(doubts.get("car"), undefined);
});

test("a device that announces or reports what it runs believes the server, also where that event was lost", () => {
  for (const type of ["announce", "activated", "fetch"] as const) {
    const doubts = new DeviceDoubts();
    doubts.heard("car", event(serverDoubted), 5);
    doubts.heard("car", { type }, 6);
    assert.equal(doubts.get("car"), undefined, type);
  }
});
