// Buffers that are moved to a thread: they are gone here, freed there once the call was answered, and whole where they
// are its answer.
import assert from "node:assert/strict";
import { it } from "node:test";
import { movable, WorkerCalls } from "../../../../shared/threads/worker-calls.js";

interface Call {
  readonly bytes: Uint8Array;
  readonly isReturned: boolean;
}

it("frees what was moved to a thread, and leaves what it answers with", async () => {
  const script = new URL("../../../helpers/keeping-thread.js", import.meta.url);
  const calls = new WorkerCalls<Call, number | Uint8Array>(script, "keeps bytes");
  const send = async (byte: number, isReturned: boolean): Promise<number | Uint8Array> => {
    const bytes = new Uint8Array(1000).fill(byte);
    const answer = await calls.call({ bytes, isReturned }, movable([bytes]));
    assert.equal(bytes.byteLength, 0);
    return answer;
  };
  assert.equal(await send(1, false), 0);
  assert.equal(await send(2, false), 0);
  assert.deepEqual(await send(3, true), new Uint8Array(1000).fill(3));
  assert.equal(await send(4, false), 0);
  await calls.close();
});
