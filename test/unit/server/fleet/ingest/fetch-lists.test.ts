/** The parts of what a device asks for become one list: in order, once all are here, and never without bound. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { FetchLists } from "../../../../../server/fleet/ingest/downloads/fetch-lists.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Fetch, ObjectRef } from "../../../../../shared/wire/messages.js";

const object = (name: string): ObjectRef => ({ kind: "tensor", id: sha256(name), byteLength: 1 });
const fetch = (part: number, parts: number, ...names: string[]): Fetch =>
  ({ type: "fetch", part, parts, objects: names.map(object) }) as unknown as Fetch;
const invalid = { code: "ANNOUNCE_INVALID" };

it("a fetch is complete with its last part, in the order of the parts, and alone where it has one", () => {
  const lists = new FetchLists();
  assert.deepEqual(lists.join("car 1", fetch(0, 1, "a")), [object("a")]);
  assert.deepEqual(lists.join("car 1", fetch(0, 0, "a")), [object("a")], "of agents that count no parts");
  assert.equal(lists.join("car 1", fetch(2, 3, "d")), undefined);
  assert.equal(lists.join("car 2", fetch(0, 3, "x")), undefined, "of another transfer");
  assert.equal(lists.join("car 1", fetch(0, 3, "a", "b")), undefined);
  assert.equal(lists.join("car 1", fetch(0, 3, "a", "b")), undefined, "the same part twice");
  assert.deepEqual(lists.join("car 1", fetch(1, 3, "c")), ["a", "b", "c", "d"].map(object));
  assert.equal(lists.join("car 1", fetch(1, 3, "c")), undefined, "it begins anew");
});

it("a part that cannot be is refused", () => {
  const lists = new FetchLists();
  assert.equal(lists.join("car", fetch(63, 64, "a")), undefined, "64 parts at most");
  for (const [part, parts] of [
    [0, 65],
    [64, 64],
    [1, 1],
    [1, 0],
  ] as const)
    assert.throws(() => lists.join("other", fetch(part, parts)), invalid, `${part} of ${parts}`);
  assert.throws(() => lists.join("car", fetch(0, 3)), invalid, "another number of parts than before");
});

it("of too many unfinished lists the oldest is dropped, and no other", () => {
  const lists = new FetchLists();
  for (let n = 0; n <= 1024; n++) assert.equal(lists.join(`car ${n}`, fetch(0, 2, "a")), undefined);
  lists.join("car 1025", fetch(0, 2, "a"));
  assert.equal(lists.join("car 0", fetch(1, 2, "b")), undefined, "its first part is gone");
  for (const n of [2, 1024, 1025])
    assert.deepEqual(lists.join(`car ${n}`, fetch(1, 2, "b"))?.length, 2, `${n}`);
});
