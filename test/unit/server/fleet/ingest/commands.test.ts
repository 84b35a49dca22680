/** Commands to devices: answers by correlation, and at once a word where a command cannot arrive. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { CommandRelay } from "../../../../../server/fleet/ingest/sessions/commands.js";
import type { DeviceSender } from "../../../../../server/fleet/ingest/sessions/device-sender.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { maxMessageBytes } from "../../../../../shared/wire/limits.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

function relayTo(arrives: boolean) {
  const clock = manualClock();
  const sent: string[] = [];
  const bodies: string[] = [];
  const send: DeviceSender["send"] = (_, body, correlation = "") => {
    if (arrives && body.type === "command") {
      sent.push(correlation);
      bodies.push(body.json);
    }
    return Promise.resolve(arrives);
  };
  const relay = new CommandRelay({ send }, clock, seededRandom("commands"), silentLog());
  return { relay, clock, sent, bodies };
}

it("answers a command with the result of the device that it was sent to, and no other", async () => {
  const { relay, sent } = relayTo(true);
  const answer = relay.send("v1", { name: "report", body: {} }, 1000);
  await new Promise(setImmediate);
  const [correlation = ""] = sent;
  relay.onResult("v2", correlation, { type: "commandResult", code: "", json: '"of another"' });
  relay.onResult("v1", correlation, { type: "commandResult", code: "", json: '"of v1"' });
  assert.deepEqual(await answer, { code: "", result: "of v1" });
});

it("says at once that a command did not go out, instead of waiting for an answer", async () => {
  const { relay } = relayTo(false);
  await assert.rejects(relay.send("v1", { name: "evaluate", body: {} }, 300_000), {
    code: "SERVER_UNREACHABLE",
  });
});

it("fails what waits for a device that is gone, and for no other; at the server's end, all", async () => {
  const { relay, sent } = relayTo(true);
  const gone = { code: "SERVER_UNREACHABLE" };
  const first = relay.send("v1", { name: "report", body: {} }, 1000);
  const second = relay.send("v2", { name: "report", body: {} }, 1000);
  await new Promise(setImmediate);
  relay.end("v1");
  await assert.rejects(first, gone);
  relay.onResult("v2", sent[1] ?? "", { type: "commandResult", code: "", json: "7" });
  assert.deepEqual(await second, { code: "", result: 7 });
  const both = ["v1", "v2"].map((device) => relay.send(device, { name: "report", body: {} }, 1000));
  await new Promise(setImmediate);
  const failed = both.map((each) => assert.rejects(each, gone));
  relay.end();
  await Promise.all(failed);
});

it("sends a command with its body, and refuses one that fits into no message", async () => {
  const { relay, sent, bodies } = relayTo(true);
  void relay.send("v1", { name: "evaluate", body: { line: "a" } }, 1000).catch(() => undefined);
  void relay.send("v1", { name: "report", body: undefined }, 1000).catch(() => undefined);
  await new Promise(setImmediate);
  assert.deepEqual(bodies, ['{"line":"a"}', "{}"]);
  const body = { text: "x".repeat(maxMessageBytes) };
  await assert.rejects(relay.send("v1", { name: "report", body }, 1000), { code: "ENVELOPE_TOO_LARGE" });
  assert.equal(sent.length, 2);
  relay.end();
});

it("ends with a time limit, and with an answer that cannot be read", async () => {
  const { relay, clock, sent } = relayTo(true);
  const silent = assert.rejects(relay.send("v1", { name: "report", body: {} }, 1000), { code: "TIMED_OUT" });
  const broken = assert.rejects(relay.send("v1", { name: "report", body: {} }, 9000), {
    code: "ENVELOPE_MALFORMED",
  });
  await new Promise(setImmediate);
  clock.advance(1000);
  relay.onResult("v1", sent[1] ?? "", { type: "commandResult", code: "", json: "{" });
  await Promise.all([silent, broken]);
});

it("lets so many commands wait at a time, and no more until some are answered", async () => {
  const { relay, sent } = relayTo(true);
  const ask = () => relay.send("v1", { name: "report", body: {} }, 1000);
  const waiting = Array.from({ length: 1024 }, () => ask().catch(() => undefined));
  await new Promise(setImmediate);
  await assert.rejects(ask(), { code: "QUOTA_EXCEEDED" });
  relay.onResult("v1", sent[0] ?? "", { type: "commandResult", code: "", json: "1" });
  await waiting[0];
  waiting.push(ask().catch(() => undefined));
  await new Promise(setImmediate);
  assert.equal(sent.length, 1025);
  relay.end();
  await Promise.all(waiting);
});
