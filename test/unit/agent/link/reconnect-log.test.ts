/** What the agent's log reports of attempts to reach a server that does not answer. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { it } from "node:test";
import { Link } from "../../../../agent/link/link.js";
import { SessionCounter } from "../../../../agent/link/session-counter.js";
import { nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import type { Clock, Log } from "../../../../shared/ports.js";
import type { Enrolment } from "../../../../shared/trust/enrolment.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

it("reports attempts to reconnect at growing distances", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  await new Promise((resolve) => taken.close(resolve));

  const files = memoryFiles();
  await files.makeFolder("/home");
  const enrolment = {
    fleet: "f",
    device: "d",
    root: "stemma",
    token: "t",
    mqtt: [`mqtt://127.0.0.1:${port}`],
  };
  const logged: unknown[] = [];
  const attempts = 9;
  await new Promise<void>((resolve) => {
    let waits = 0;
    // Every wait is over at once; the one after the last attempt never ends.
    const clock = {
      after: (_delayMs: number, callback: () => void) => {
        if (waits++ === attempts) resolve();
        else setImmediate(callback);
        return () => undefined;
      },
    } as Clock;
    const log: Log = { ...silentLog(), warn: (event, fields) => logged.push([event, fields?.["attempt"]]) };
    void SessionCounter.open(files, "/home").then((counter) => {
      const handlers = { onOpen() {}, onClosed() {}, onMessage() {}, onBlock() {} };
      const identity = {
        judges: () => false,
        dial: () => assert.fail("the link has no certificate"),
        renewIfDue: () => Promise.resolve(),
      };
      const deviceKey = generateKey(nodeRandom());
      const options = {
        identity,
        deviceKey,
        counter,
        clock,
        log,
        random: nodeRandom(),
        mqtt: { reconnectPeriod: 0 },
      };
      new Link({ ...options, enrolment: enrolment as Enrolment & typeof enrolment }, handlers).start();
    });
  });
  assert.deepEqual(
    logged,
    [1, 2, 4, 8].map((attempt) => ["disconnected", attempt]),
  );
});
