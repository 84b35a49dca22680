/** MQTT topics: built, parsed back, and safe against names that would widen them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  buildTopic,
  checkRoot,
  clientIdOf,
  deviceSubscriptions,
  fleetSubscriptions,
  isName,
  parseTopic,
  type Topic,
} from "../../../../shared/wire/topics.js";

const names = { root: "stemma", fleet: "f-1", device: "v_1" };
const transfer = "0123456789abcdef";
const all: Topic[] = [
  ...(["state", "birth", "up", "down"] as const).map((kind) => ({ ...names, kind })),
  ...(["block-up", "block-down"] as const).map((kind) => ({ ...names, kind, transfer })),
];

test("every topic is parsed back, has at most seven slashes and no dot", () => {
  for (const root of ["stemma", "site/stemma"]) {
    for (const topic of all) {
      const text = buildTopic({ ...topic, root });
      assert.deepEqual(parseTopic(root, text), { ...topic, root });
      assert.ok(text.split("/").length <= 8 && !text.includes("."), text);
    }
  }
});

test("foreign topics are not parsed, and nothing throws", () => {
  const base = "stemma/v1/f-1/v_1";
  for (const text of [
    "",
    "stemma",
    "stemma/v1",
    "stemma/v1/f-1",
    base,
    `${base}/`,
    `${base}/up`,
    `${base}/up/words/x`,
    `${base}/up/words/`,
    `${base}/block/up`,
    `${base}/block/up/`,
    `${base}/block/up/XYZ`,
    `${base}/block/up/${transfer}/x`,
    `${base}/block/sideways/${transfer}`,
    "stemma/v2/f-1/v_1/state",
    "other/v1/f-1/v_1/state",
    "stemma/v1/f.1/v_1/state",
    "stemma/v1//v_1/state",
    "stemma/v1/+/v_1/state",
    `${base}/#`,
    `stemma/v1/${"f".repeat(65)}/v/state`,
    "x".repeat(70_000),
    `${base}/block/up/0123456789ABCDEF`,
    `${base}/state\0`,
    "stemma/v1/__proto__/constructor/state",
  ]) {
    assert.equal(parseTopic("stemma", text), undefined, text.slice(0, 80));
  }
});

test("names cannot widen a topic", () => {
  for (const name of [
    "",
    ".",
    "..",
    "a.b",
    "a/b",
    "+",
    "#",
    "a+",
    "a#",
    "a\0",
    " a",
    "a b",
    "-a",
    "_a",
    "$SYS",
    "ä",
    "a".repeat(65),
    "a:b",
  ]) {
    assert.equal(isName(name), false, name);
    assert.throws(
      () => buildTopic({ ...names, device: name, kind: "up" }),
      (error) => isStemmaError(error, "TOPIC_INVALID"),
    );
    assert.throws(
      () => clientIdOf(name, "v"),
      (error) => isStemmaError(error, "TOPIC_INVALID"),
    );
  }
  for (const name of ["a", "7", "V-1_x", "a".repeat(64)]) assert.equal(isName(name), true, name);
  for (const root of ["", "a/b/c", "a//b", "/a", "a/", "a.b", "#"])
    assert.throws(
      () => checkRoot(root),
      (error) => isStemmaError(error, "TOPIC_INVALID"),
      root,
    );
  assert.throws(
    () => buildTopic({ ...names, kind: "block-up", transfer: "x" }),
    (error) => isStemmaError(error, "TOPIC_INVALID"),
  );
});

test("subscriptions of a device and of a fleet's server", () => {
  assert.deepEqual(deviceSubscriptions("stemma", "f", "v"), [
    "stemma/v1/f/v/down/words",
    "stemma/v1/f/v/block/down/+",
  ]);
  assert.deepEqual(fleetSubscriptions("stemma", "f"), [
    "stemma/v1/f/+/state",
    "stemma/v1/f/+/birth",
    "stemma/v1/f/+/up/words",
    "stemma/v1/f/+/block/up/+",
  ]);
});
