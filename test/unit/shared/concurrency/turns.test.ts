import assert from "node:assert/strict";
import { it } from "node:test";
import { Turns } from "../../../../shared/concurrency/turns.js";

it("runs no more actions at the same time than there are turns, in the order of the calls", async () => {
  const turns = new Turns({ count: 2, turnMs: 60_000 });
  let running = 0;
  let most = 0;
  const begun: number[] = [];
  const results = await Promise.all(
    Array.from({ length: 7 }, (_, number) =>
      turns.run(async () => {
        begun.push(number);
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        return number;
      }),
    ),
  );
  assert.equal(most, 2);
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5, 6]);
  assert.deepEqual(results, begun);
});

it("hands on an action's error, and goes on with the next", async () => {
  const turns = new Turns({ count: 1, turnMs: 60_000 });
  await assert.rejects(
    turns.run(() => Promise.reject(new Error("it failed"))),
    /it failed/,
  );
  assert.equal(await turns.run(() => Promise.resolve(1)), 1);
});

it("lets others run while an action takes long, and resolves with what that one gives in the end", async () => {
  const turns = new Turns({ count: 1, turnMs: 1 });
  let end: (value: string) => void = () => undefined;
  const long = turns.run(
    () =>
      new Promise<string>((resolve) => {
        end = resolve;
      }),
  );
  assert.equal(await turns.run(() => Promise.resolve("next")), "next");
  end("long");
  assert.equal(await long, "long");
});
