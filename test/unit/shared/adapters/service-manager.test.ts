/** Signs of life for systemd: when they are given, and when nothing is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { extendStart, tellServiceManager } from "../../../../shared/adapters/service-manager.js";

function start(environment: Readonly<Record<string, string>>) {
  const said: string[] = [];
  const timers: { readonly milliseconds: number; readonly act: () => void }[] = [];
  const manager = tellServiceManager({
    environment,
    notify: (words) => said.push(words.join(" ")),
    every: (milliseconds, act) => {
      const timer = { milliseconds, act };
      timers.push(timer);
      return () => timers.splice(timers.indexOf(timer), 1);
    },
  });
  return { manager, said, timers };
}

test("outside of a service nothing is said", () => {
  const { manager, said, timers } = start({ WATCHDOG_USEC: "120000000" });
  manager.stopping();
  assert.deepEqual([said, timers], [[], []]);
});

test("a service is ready, lives three times in a period, and stops", () => {
  const { manager, said, timers } = start({ NOTIFY_SOCKET: "/run/notify", WATCHDOG_USEC: "120000000" });
  assert.deepEqual(
    timers.map(({ milliseconds }) => milliseconds),
    [40_000],
  );
  timers[0]?.act();
  manager.stopping();
  assert.deepEqual(said, ["--ready", "WATCHDOG=1", "STOPPING=1"]);
  assert.deepEqual(timers, []);
});

test("a service without a watchdog gives no signs of life", () => {
  const { said, timers } = start({ NOTIFY_SOCKET: "/run/notify" });
  assert.deepEqual([said, timers], [["--ready"], []]);
});

test("a long start asks the service manager for more time", () => {
  const said: string[] = [];
  const ports = (environment: Readonly<Record<string, string>>): Parameters<typeof extendStart>[1] => ({
    environment,
    notify: (words) => said.push(...words),
    every: () => () => undefined,
  });
  extendStart(120_000, ports({}));
  assert.deepEqual(said, []);
  extendStart(120_000, ports({ NOTIFY_SOCKET: "/run/notify" }));
  assert.deepEqual(said, ["EXTEND_TIMEOUT_USEC=120000000"]);
});
