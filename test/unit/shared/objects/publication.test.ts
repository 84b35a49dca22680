/** Packs published serially or concurrently never form a cycle, in any order. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { isFault } from "../../../../shared/objects/chains.js";
import { ObjectIndex } from "../../../../shared/objects/object-index.js";
import { packBytes, type PackIndex } from "../../../../shared/objects/pack-format.js";
import { Publication } from "../../../../shared/objects/publication.js";
import {
  describedEntry,
  sealEntries,
  type Seal,
  type UnsealedEntry,
} from "../../../../shared/objects/unsealed-entry.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { hasCode } from "../../../helpers/object-stores.js";

const hash = (name: string): Hash => sha256(name);
let packs = 0;
const pack = (entries: readonly UnsealedEntry[], seal: Seal): PackIndex => {
  const sealed = sealEntries(entries, seal);
  return { name: `p${packs++}`, bytes: packBytes(sealed), entries: sealed };
};
/** "x" raw, "x<y" against y, "x<y,z" against y and z. */
function entry(text: string): UnsealedEntry {
  const [name, against] = text.split("<") as [string, string?];
  const [base, previous] = against?.split(",").map(hash) ?? [];
  return describedEntry(
    {
      id: hash(name),
      kind: "tensor",
      header: { dtype: "U8", shape: [4] },
      byteLength: 4,
      encodingCode: base === undefined ? 0 : 2,
      ...(base && { base }),
      ...(previous && { previous }),
    },
    32,
    4,
  );
}
const recoded = (text: string): UnsealedEntry => ({ ...entry(text), isRewrite: true, needsEpoch: true });

function start() {
  const index = new ObjectIndex();
  const publication = new Publication(index);
  return {
    index,
    publish: (
      entries: readonly UnsealedEntry[],
      write: (make: () => PackIndex) => Promise<PackIndex> = (make) => Promise.resolve(make()),
    ) => publication.publish(entries, (seal) => write(() => pack(entries, seal))),
    /** Opens all copies on the disk, as after a restart. */
    reopened: (): ObjectIndex => {
      const again = new ObjectIndex();
      for (const one of [...index.packs.values()].reverse()) again.add(one);
      return again;
    },
    usable: (...names: readonly string[]): void => {
      for (const name of names)
        assert.ok(index.isUsable(hash(name)), `${name}: ${JSON.stringify(index.state(hash(name)))}`);
    },
  };
}

it("leaves out tensors that another save published while this one was written", async () => {
  const { index, publish, reopened, usable } = start();
  await publish([entry("y"), entry("x<y")]);
  await publish([entry("x"), entry("y<x")]);
  usable("x", "y");
  assert.equal(index.locate(hash("y"))?.entry.base, undefined);
  for (const name of ["x", "y"]) assert.ok(!isFault(reopened().state(hash(name))));
  assert.equal(await publish([entry("x<y")]), undefined);
});

it("makes a save wait for another save of the same tensor, and continues when that one fails", async () => {
  for (const fails of [false, true]) {
    const { publish, usable, reopened } = start();
    let finish: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const first = publish([entry("y"), entry("x<y")], async (make) => {
      await gate;
      if (fails) throw new StemmaError("DISK_FULL", "of the test");
      return make();
    });
    let done = false;
    const second = publish([entry("x"), entry("y<x")]).then(() => {
      done = true;
    });
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    assert.ok(!done);
    finish();
    if (fails) await assert.rejects(() => first, hasCode("DISK_FULL"));
    else await first;
    await second;
    usable("x", "y");
    for (const name of ["x", "y"]) assert.ok(!isFault(reopened().state(hash(name))));
  }
});

it("publishes saves of different tensors concurrently, and a recoding exclusively", async () => {
  const { publish } = start();
  await publish([entry("base")]);
  let inside = 0;
  let most = 0;
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const saves = [1, 2, 3].map((n) =>
    publish([entry(`s${n}<base`)], async (make) => {
      most = Math.max(most, ++inside);
      if (inside === 3) open();
      await gate;
      inside--;
      return make();
    }),
  );
  const recoding = publish([recoded("base")], (make) => {
    assert.equal(inside, 0);
    return Promise.resolve(make());
  });
  await Promise.all([...saves, recoding]);
  assert.equal(most, 3);
});

it("refuses a tensor that lost its base while it was written, and one that would make others' chains too long", async () => {
  const { index, publish, usable } = start();
  await publish([entry("y"), entry("x<y"), entry("z<x,y")]);
  await assert.rejects(() => publish([recoded("y<z")]), hasCode("CHAIN_CYCLIC"));
  index.noteDamage(hash("y"), new StemmaError("OBJECT_HASH_MISMATCH", "of the test"));
  await assert.rejects(() => publish([entry("w<z")]), hasCode("REFERENCE_MISSING"));
  assert.ok(!index.isUsable(hash("z")) && !index.isUsable(hash("y")));
  // A new copy of a damaged tensor makes the tensors coded against it readable again.
  await publish([recoded("y")]);
  usable("x", "y", "z");
});

it("reads the same copy after reopening, in whichever order the packs are found", async () => {
  const { index, publish, reopened } = start();
  await publish([entry("a"), entry("b"), entry("c")]);
  await publish([recoded("b<a")]);
  await publish([recoded("c<b")]);
  await publish([recoded("b")]);
  await publish([recoded("a<c")]);
  for (const name of ["a", "b", "c"])
    assert.deepEqual(reopened().locate(hash(name)), index.locate(hash(name)));
});
