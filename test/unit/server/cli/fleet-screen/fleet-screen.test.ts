/**
 * The live screen of a fleet: never wider or longer than the terminal, with what events told; nothing that a device
 * says controls it.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describeRuns, devicePage, fleetScreen } from "../../../../../server/cli/fleet-screen/fleet-text.js";
import {
  emptyView,
  eventLine,
  totalRate,
  viewAfter,
  type FleetView,
  type ListedDevice,
} from "../../../../../server/cli/fleet-screen/fleet-view.js";
import { keysIn, Terminal } from "../../../../../server/cli/fleet-screen/terminal.js";
import type { ServerEvent } from "../../../../../server/interface/api/event-schemas.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const fleet = "cars";
const id = "ab".repeat(32) as Hash;
const device = (name: string, more: Partial<ListedDevice> = {}): ListedDevice => ({
  device: name,
  profile: "generic",
  lines: ["soh"],
  generation: 1,
  enrolledAtMs: 0,
  state: "enrolled",
  session: 1,
  publicKey: "",
  active: {},
  online: true,
  runs: { soh: "soh:1" },
  ...more,
});
const transfer = (atMs: number, bytes: number, of = "van-1"): ServerEvent => ({
  event: "transfer",
  atMs,
  fleet,
  device: of,
  line: "soh",
  versionId: id,
  transfer: "t",
  bytes,
  totalBytes: 14e6,
  resumedBytes: 0,
});
const view = (devices: readonly ListedDevice[]): FleetView => ({ ...emptyView(fleet), devices });

describe("the live screen", () => {
  it("fits any terminal, and keeps the selected device on it", () => {
    const many = view(Array.from({ length: 500 }, (_, at) => device(`a-vehicle-with-a-long-name-${at}`)));
    const told = Array.from({ length: 9 }, (_, at) => transfer(at, at, `v${at}`)).reduce(viewAfter, many);
    for (const rows of [5, 12, 24, 60])
      for (const columns of [10, 80, 200]) {
        const selected = 321;
        const lines = fleetScreen(told, { columns, rows }, { selected, nowMs: 0, problem: "x".repeat(300) });
        assert.ok(lines.length < rows || rows < 6, `${lines.length} lines on ${rows} rows`);
        assert.ok(lines.every(({ text }) => text.length <= columns));
        if (rows >= 12) assert.equal(lines.filter(({ style }) => style === "selected").length, 1);
        assert.ok(
          devicePage(Array(99).fill("line"), Array(99).fill("event"), { columns, rows }).length <= rows,
        );
      }
  });

  it("shows what a device sends, how fast, and what it does after that", () => {
    const sending = [transfer(1000, 1e6), transfer(2000, 3e6), transfer(3000, 5e6)].reduce(
      viewAfter,
      view([device("van-1"), device("van-2", { online: false, runs: {} })]),
    );
    assert.equal(totalRate(sending, 3500), 2e6);
    assert.equal(totalRate(sending, 60_000), 0);
    const text = fleetScreen(sending, { columns: 80, rows: 24 }, { selected: 0, nowMs: 3500 })
      .map((line) => line.text)
      .join("\n");
    assert.match(text, /2 devices, 1 online; 2\.00 MB\/s come in/);
    assert.match(text, /van-1 +online +soh soh:1 +↑ 35 % of 14\.0 MB, 2\.00 MB\/s/);
    assert.match(text, /van-2 +offline +- /);
    const gone = viewAfter(sending, { event: "device-disconnected", atMs: 4000, fleet, device: "van-1" });
    assert.equal(gone.doing.has("van-1"), false);
    assert.deepEqual(viewAfter(sending, { ...transfer(9, 9), fleet: "other" }), sending);
    assert.deepEqual(describeRuns(sending.devices), ["soh: 1 soh:1, 1 with no model reported"]);
  });

  it("has bounded notes without control characters of a device", () => {
    const evil: ServerEvent = {
      event: "device-event",
      atMs: 0,
      fleet,
      device: "van-1",
      line: "soh",
      name: "x\u001b[2J",
      text: "\u001b]0;owned\u0007\n",
    };
    const after = Array.from({ length: 999 }, () => evil).reduce(viewAfter, view([device("van-1")]));
    assert.equal(after.notes.length, 200);
    assert.match(eventLine(evil) ?? "", /van-1/);
    for (const { text } of fleetScreen(after, { columns: 80, rows: 24 }, { selected: 0, nowMs: 0 }))
      assert.doesNotMatch(text, /[\u0000-\u001f]/);
  });
});

describe("a terminal", () => {
  it("tells keys apart and ignores others", () => {
    assert.deepEqual(keysIn("\u001b[A\u001b[B\r\u001bq"), ["up", "down", "enter", "back", "quit"]);
    assert.deepEqual(keysIn("\u001b[1;5Cxyz\u001b[99~"), []);
    assert.deepEqual(keysIn("\u0003"), ["quit"]);
    assert.deepEqual(keysIn("\u001b"), ["back"]);
  });

  it("is given back as it was", () => {
    const written: string[] = [];
    const raw: boolean[] = [];
    const listeners = new Map<string, unknown>();
    const stream = {
      columns: 80,
      rows: 24,
      write: (text: string) => written.push(text),
      setRawMode: (mode: boolean) => raw.push(mode),
      on: (name: string, listener: unknown) => listeners.set(name, listener),
      removeListener: (name: string) => listeners.delete(name),
      resume: () => undefined,
      pause: () => undefined,
    };
    const before = process.listenerCount("exit");
    const terminal = new Terminal(
      stream as unknown as ConstructorParameters<typeof Terminal>[0],
      stream as unknown as ConstructorParameters<typeof Terminal>[1],
      { onKey: () => undefined, onResize: () => undefined },
      false,
    );
    terminal.open();
    terminal.draw([{ text: "one", style: "head" }]);
    terminal.draw([{ text: "one", style: "head" }]);
    terminal.close();
    terminal.close();
    terminal.draw([{ text: "late" }]);
    assert.deepEqual(raw, [true, false]);
    assert.deepEqual([...listeners], []);
    assert.equal(process.listenerCount("exit"), before);
    assert.deepEqual(written, [
      "\u001b[?1049h\u001b[?25l",
      "\u001b[Hone\u001b[K\u001b[J",
      "\u001b[?25h\u001b[?1049l",
    ]);
  });
});
