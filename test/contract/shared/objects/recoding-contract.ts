/** The part of the object store contract about recoding: saves that rewrite stored tensors in other encodings. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Tensor } from "../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  readBack,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { hasCode, type StartStore } from "../../../helpers/object-stores.js";

export function recoding(start: StartStore): void {
  it("rewrites what the caller asks it to recode, reads the new copy, and the next collection removes the old one", async () => {
    const { store, reopen } = await start();
    const tensors = [0, 1, 2].map((member) => memberOf(1, member));
    const [first, second, third] = tensors as [Tensor, Tensor, Tensor];
    const live = new Set(tensors.map(idOfTensor));
    const codeAndDepth = (member: Tensor): unknown => {
      const { code: number, depth } = store.encodingOf(idOfTensor(member)) ?? assert.fail();
      return [number, depth];
    };
    await writePack(store, tensors);
    const collect = async (): Promise<void> => {
      const plan = await store.planCollection(live);
      assert.deepEqual(plan.dead, []);
      assert.ok(plan.bytesAfter < plan.bytesBefore);
      assert.equal((await store.collect(plan, () => live)).freedBytes, plan.bytesBefore - plan.bytesAfter);
      await assertReadable(store, ...tensors);
    };
    await writePack(store, [codedAgainst(second, first), codedAgainst(third, second, first)], {
      recode: true,
    });
    assert.deepEqual(tensors.map(codeAndDepth), [
      [0, 0],
      [2, 1],
      [2, 2],
    ]);
    await assertReadable(store, ...tensors);
    await collect();
    // The reversed chain: the newest tensor raw, the oldest at the end, all in one pack because each needs
    // the others.
    await writePack(store, [third, codedAgainst(second, third), codedAgainst(first, second)], {
      recode: true,
    });
    assert.deepEqual(tensors.map(codeAndDepth), [
      [2, 2],
      [2, 1],
      [0, 0],
    ]);
    await collect();
    await writePack(store, [codedAgainst(first), second], { recode: true });
    assert.deepEqual(tensors.map(codeAndDepth), [
      [2, 0],
      [0, 0],
      [0, 0],
    ]);
    await assertReadable(store, ...tensors);
    await store.close();
    const reopened = await reopen?.();
    if (reopened === undefined) return;
    await assertReadable(reopened, ...tensors);
    assert.equal(reopened.encodingOf(idOfTensor(second))?.code, 0);
    const plan = await reopened.planCollection(live);
    await reopened.collect(plan, () => live);
    assert.equal(
      (await reopened.planCollection(live)).bytesAfter,
      (await reopened.planCollection(live)).bytesBefore,
    );
    await assertReadable(reopened, ...tensors);
    await reopened.close();
  });

  it("never stores two tensors that depend on each other", async () => {
    const { store } = await start();
    const [first, second, third] = [0, 1, 2].map((member) => memberOf(1, member)) as [Tensor, Tensor, Tensor];
    await writePack(store, [first, codedAgainst(second, first), codedAgainst(third, second)]);
    await assert.rejects(
      () => writePack(store, [codedAgainst(first, third)], { recode: true }),
      hasCode("CHAIN_CYCLIC"),
    );
    await assert.rejects(
      () => writePack(store, [codedAgainst(first, second), second], { recode: true }),
      hasCode("CHAIN_CYCLIC"),
    );
    // Two concurrent recodings, each of which would be valid alone.
    await writePack(store, [first, second, third], { recode: true });
    const both = await Promise.allSettled([
      writePack(store, [codedAgainst(first, second)], { recode: true }),
      writePack(store, [codedAgainst(second, first)], { recode: true }),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    await assertReadable(store, first, second, third);
    await store.close();
  });

  it("lets readers finish while everything is recoded and collected", async () => {
    const { store } = await start();
    const shape = [200, 100];
    const tensors = [0, 1, 2, 3].map((member) => memberOf(6, member, shape));
    const live = new Set(tensors.map(idOfTensor));
    await writePack(store, tensors);
    const raw = tensors;
    const forwards = [tensors[0]!, ...[1, 2, 3].map((i) => codedAgainst(tensors[i]!, tensors[i - 1]))];
    const backwards = [tensors[3]!, ...[2, 1, 0].map((i) => codedAgainst(tensors[i]!, tensors[i + 1]))];
    let done = false;
    const reading = Promise.all(
      tensors.map(async (tensor) => {
        let count = 0;
        while (!done || count < 3) {
          assert.deepEqual(await readBack(store, tensor, count++ % 2 === 0), tensor.bytes);
          await new Promise((resolve) => {
            setImmediate(resolve);
          });
        }
        return count;
      }),
    );
    for (let round = 0; round < 9; round++) {
      await writePack(store, [forwards, backwards, raw][round % 3]!, { recode: true });
      await store.collect(await store.planCollection(live), () => live);
    }
    done = true;
    assert.ok((await reading).every((count) => count >= 3));
    await store.close();
  });
}
