/** The two forms of the log, plain and JSON: the same events with the same fields. */
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { openLog, type LogOptions } from "../../../../shared/adapters/log.js";

function logged(options: Omit<LogOptions, "stream">): string {
  const stream = new PassThrough();
  const log = openLog({ ...options, stream });
  log.debug("seen", { bytes: 1 });
  log.info("started");
  log.child({ fleet: "f" }).warn("port-taken", { port: 1883, text: "another\nport", list: [1] });
  return String(stream.read());
}

test("a plain log writes one line per event with its text and fields", () => {
  const lines = logged({ form: "plain", level: "info" })
    .split("\n")
    .map((line) => line.slice(new Date().toISOString().length + 1));
  assert.deepEqual(lines, ["started", "warning: port-taken: another port (fleet=f port=1883)", ""]);
  assert.match(logged({ form: "plain", level: "debug" }), /debug: seen \(bytes=1\)/);
  assert.doesNotMatch(logged({ form: "plain", level: "warn" }), /started/);
});

test("a JSON log writes one object per event with the same fields", () => {
  const [started, taken] = logged({ form: "json", level: "info" })
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(started?.["event"], "started");
  assert.deepEqual(
    { ...taken, time: undefined },
    {
      level: 40,
      time: undefined,
      fleet: "f",
      event: "port-taken",
      port: 1883,
      text: "another\nport",
      list: [1],
    },
  );
  assert.match(logged({ form: "json", level: "debug" }), /"seen"/);
});

test("a plain log hands no text of a device to the terminal as a command", () => {
  const stream = new PassThrough();
  const log = openLog({ form: "plain", level: "info", stream });
  log.info("device-event", {
    device: "v1",
    text: "\u001b]0;owned\u0007\u001b[2J\u009b2Jx\r\u202eb",
    kind: "\u001b[31m",
  });
  const line = String(stream.read());
  assert.ok(!/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/.test(line), JSON.stringify(line));
  assert.match(line, /device-event: \\u\{1b\}\]0;owned\\u\{7\}.*x .*b .*kind=\\u\{1b\}\[31m/);
});

test("on a device that has the agent's command alone, texts name that", (context) => {
  const typed = Symbol.for("stemma.command");
  Object.assign(globalThis, { [typed]: "stemma-agent" });
  context.after(() => Reflect.deleteProperty(globalThis, typed));
  for (const form of ["plain", "json"] as const) {
    const stream = new PassThrough();
    openLog({ form, level: "info", stream }).warn("expires", { text: "renew it: stemma agent renew" });
    assert.match(String(stream.read()), /renew it: stemma-agent renew/);
  }
});
