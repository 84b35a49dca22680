/** What a device is asked for: small objects in one message, tensors by their places in as many as they need. */
import assert from "node:assert/strict";
import { it } from "node:test";
import {
  wantBases,
  wantMessages,
  type TransferRequest,
} from "../../../../../server/fleet/ingest/uploads/want-messages.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { indicesPerWant } from "../../../../../shared/wire/limits.js";
import type { ObjectRef } from "../../../../../shared/wire/messages.js";

const versionId = sha256("version");
const of = (kind: ObjectRef["kind"], name: string): ObjectRef => ({ kind, id: sha256(name), byteLength: 4 });
const request = (members: Partial<TransferRequest>): TransferRequest => ({
  id: "t",
  reason: "tensors",
  objects: [],
  indices: [],
  references: undefined,
  optimizer: undefined,
  ownReferences: false,
  ...members,
});
const options = { blockBytes: 100, streamBytes: 999 };

it("small objects are asked for whole, in one message, as no stream that was begun", () => {
  const objects = [of("tree", "t"), of("names", "n")];
  const [want, ...more] = wantMessages(versionId, request({ reason: "objects", objects }), options);
  assert.deepEqual(more, []);
  assert.deepEqual(want, {
    type: "want",
    reason: "objects",
    versionId,
    transfer: "t",
    bases: [],
    blockBytes: 100,
    objects,
    part: 0,
    parts: 1,
    more: false,
    tensorIndices: [],
  });
});

it("tensors are asked for by their places, objects that stream by their names, each once", () => {
  const stream = of("blob" as ObjectRef["kind"], "b");
  const indices = Array.from({ length: indicesPerWant + 1 }, (_, index) => index);
  const objects = [...indices.map((index) => of("tensor", `${index}`)), stream];
  const wants = wantMessages(versionId, request({ objects, indices }), options);
  assert.deepEqual(
    wants.map(({ part, parts, more, objects: named, tensorIndices }) => [
      part,
      parts,
      more,
      named,
      tensorIndices.length,
    ]),
    [
      [0, 2, true, [stream], indicesPerWant],
      [1, 2, false, [], 1],
    ],
  );
  assert.deepEqual(
    wants.flatMap(({ tensorIndices }) => tensorIndices),
    indices,
  );
  assert.ok(wants.every((want) => want.streamBytes === 999 && !("references" in want)));
  const [streams] = wantMessages(versionId, request({ objects: [stream] }), options);
  assert.deepEqual([streams?.parts, streams?.objects, streams?.tensorIndices], [1, [stream], []]);
});

it("a coded stream names what it may be coded against", () => {
  const held = { versionId: sha256("held"), bases: [], leaves: [] };
  const optimizer = { ...held, versionId: sha256("optimizer") };
  const [want] = wantMessages(
    versionId,
    request({ references: [held], optimizer, ownReferences: true }),
    options,
  );
  assert.deepEqual(want?.references, [held.versionId]);
  assert.equal(want?.optimizerReference, optimizer.versionId);
  assert.equal(want?.ownReferences, true);
  assert.ok(want?.codec !== undefined);
});

it("bases are asked for as versions, in no transfer", () => {
  const { type, reason, bases, transfer, objects } = wantBases(versionId, [sha256("base")]);
  assert.deepEqual([type, reason, bases, transfer, objects], ["want", "base", [sha256("base")], "", []]);
});
