/** The part of the object store contract about compact encodings, and about reading only the high bytes of a tensor. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { encodingCodes } from "../../../../shared/delta/encoded.js";
import { keepHighPlanes } from "../../../../shared/objects/high-planes.js";
import { parseScheme } from "../../../../shared/schemes/scheme.js";
import { reduceTensor } from "../../../../shared/schemes/reduce.js";
import { sourceOfTensor, type Tensor } from "../../../../shared/tensor/tensor.js";
import {
  assertReadable,
  codedAgainst,
  idOfTensor,
  memberOf,
  readBack,
  writePack,
} from "../../../helpers/coded-tensors.js";
import { nearlyEqual, noiseTensor, weights } from "../../../helpers/related-tensors.js";
import { hasCode, type StartStore } from "../../../helpers/object-stores.js";

export function tensorPlanes(start: StartStore): void {
  it("reads the highest bytes alone; of encodings in planes from a part of the stored bytes", async () => {
    const { store } = await start();
    const shape = [64, 64];
    const [base, child, grandchild, packed] = [0, 1, 2, 3].map((member) => memberOf(5, member, shape)) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor,
    ];
    const half = noiseTensor("F16", [50], 1);
    const bytes = noiseTensor("U8", [50], 2);
    const four = noiseTensor("F4", [4, 4], 3);
    const raw = weights(shape, 77);
    await writePack(store, [
      codedAgainst(base, undefined, undefined, "planes"),
      codedAgainst(child, base, undefined, "planes"),
      codedAgainst(grandchild, child, undefined, "planes"),
      codedAgainst(packed, grandchild),
      codedAgainst(half, undefined, undefined, "planes"),
      bytes,
      four,
      raw,
    ]);
    assert.equal(store.encodingOf(idOfTensor(grandchild))?.depth, 2);
    for (const tensor of [base, child, grandchild, packed, half, bytes, four, raw]) {
      const width = { F16: 2, U8: 1, F4: 0 }[tensor.dtype as string] ?? 4;
      let before = 0;
      for (let planesRead = 1; planesRead <= 4; planesRead++) {
        const { bytes: high, readBytes } = await store.readHighPlanes(idOfTensor(tensor), planesRead);
        assert.deepEqual(
          high,
          keepHighPlanes(tensor.bytes, width, planesRead),
          `${tensor.dtype} ${planesRead}`,
        );
        if (tensor === grandchild && planesRead < 4)
          assert.ok(
            readBytes > before &&
              readBytes <
                [base, child, grandchild].reduce(
                  (sum, one) => sum + (store.stat(idOfTensor(one))?.storedBytes ?? 0),
                  0,
                ),
            `${readBytes} after ${before}`,
          );
        before = readBytes;
      }
    }
    assert.equal((await store.readHighPlanes(idOfTensor(raw), 2)).readBytes, raw.bytes.length);
    await assert.rejects(
      () => store.readHighPlanes(idOfTensor(weights(shape, 1)), 1),
      hasCode("OBJECT_MISSING"),
    );
    await assert.rejects(() => store.readHighPlanes(idOfTensor(raw), 5), hasCode("INTERNAL"));
    await store.close();
  });

  it("reads fixed planes from a part of the stored bytes, and the complete tensor where bytes in IEEE order are requested", async () => {
    const { store, reopen } = await start();
    const kernel = weights([64, 80], 21);
    const vector = weights([3000], 22);
    const child = nearlyEqual(kernel, 0.9, 23);
    await writePack(store, [
      codedAgainst(kernel, undefined, undefined, "fixed"),
      codedAgainst(vector, undefined, undefined, "fixed"),
      codedAgainst(child, kernel, undefined, "planes"),
    ]);
    const id = idOfTensor(kernel);
    const { code: number, storedBytes } = store.encodingOf(id)!;
    assert.equal(number, encodingCodes.fixedPlanes);
    const ask = async (from: typeof store): Promise<void> => {
      let before = 0;
      for (const planesRead of [1, 2, 3]) {
        const { levels, readBytes } = (await from.readFixedPlanes(id, planesRead))!;
        assert.deepEqual(
          [levels.shape, levels.exponents.length, levels.planes.map(({ length }) => length)],
          [kernel.shape, 80, Array.from({ length: planesRead }, () => 64 * 80)],
        );
        assert.ok(readBytes > before && readBytes < storedBytes, `${readBytes} after ${before}`);
        before = readBytes;
        for (const tensor of [kernel, child])
          assert.deepEqual(
            (await from.readHighPlanes(idOfTensor(tensor), planesRead)).bytes,
            keepHighPlanes(tensor.bytes, 4, planesRead),
          );
      }
      assert.equal((await from.readHighPlanes(id, 1)).readBytes, storedBytes);
      for (const other of [vector, child])
        assert.equal(await from.readFixedPlanes(idOfTensor(other), 1), undefined);
    };
    await ask(store);
    for (const tensor of [kernel, vector, child]) await assertReadable(store, tensor);
    await assert.rejects(
      () => store.readFixedPlanes(idOfTensor(weights([2, 2], 1)), 1),
      hasCode("OBJECT_MISSING"),
    );
    await assert.rejects(() => store.readFixedPlanes(id, 4), hasCode("INTERNAL"));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      await ask(reopened);
      await reopened.close();
    }
  });

  it("stores a tensor reduced by a float scheme in its compact form", async () => {
    const { store, reopen } = await start();
    const exact = weights([40, 30], 5);
    for (const scheme of ["float16", "quantize-uniform:6"]) {
      const { reduced, code: number, bytes } = reduceTensor(parseScheme(scheme), exact, exact.bytes);
      const tensor = { ...exact, bytes: reduced };
      await writePack(store, [
        { id: idOfTensor(tensor), header: { dtype: exact.dtype, shape: exact.shape }, code: number, bytes },
      ]);
      await assertReadable(store, tensor);
      assert.ok((store.encodingOf(idOfTensor(tensor))?.storedBytes ?? 0) < exact.bytes.length / 1.5);
      // Another tensor may be encoded against it.
      const near = nearlyEqual(tensor, 0.9, 2);
      await writePack(store, [codedAgainst(near, tensor)]);
      await assertReadable(store, near);
      assert.deepEqual(
        (await store.readHighPlanes(idOfTensor(tensor), 2)).bytes,
        keepHighPlanes(reduced, 4, 2),
      );
    }
    const all = new Set([...store.list()].map(({ id }) => id));
    await store.close();
    const reopened = await reopen?.();
    if (reopened !== undefined) {
      for (const id of all) await readBack(reopened, id);
      await reopened.close();
    }
  });

  it("accepts a raw tensor as a coded one", async () => {
    const { store } = await start();
    const tensor = memberOf(1, 0);
    const source = sourceOfTensor(tensor);
    const pack = await store.begin();
    await pack.putCoded({
      id: idOfTensor(tensor),
      header: { dtype: source.dtype, shape: source.shape },
      code: 0,
      bytes: tensor.bytes,
    });
    await pack.commit();
    await assertReadable(store, tensor);
    assert.deepEqual((await store.readCoded(idOfTensor(tensor))).bytes, tensor.bytes);
    await store.close();
  });
}
