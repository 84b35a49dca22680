/** Commands to devices: answers by correlation, and at once a word where a command cannot arrive. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { CommandRelay } from "../../../../../server/fleet/ingest/sessions/commands.js";
import type { DeviceSender } from "../../../../../server/fleet/ingest/sessions/device-sender.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

function relayTo(arrives: boolean): { relay: CommandRelay; sent: string[] } {
  const sent: string[] = [];
  const send: DeviceSender["send"] = (_, body, correlation = "") => {
    if (arrives && body.type === "command") sent.push(correlation);
    return Promise.resolve(arrives);
  };
  return { relay: new CommandRelay({ send }, manualClock(), seededRandom("commands"), silentLog()), sent };
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
