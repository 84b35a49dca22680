/** Judgements of candidates: whom they end, and that neither workers nor kills change them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isEnded, Judge, type JudgedEvent } from "../../../../../server/learning/nas/judge.js";
import { SearchLog } from "../../../../../server/learning/nas/search-log.js";
import type { Files } from "../../../../../shared/ports.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";

const settings = { judgeAfter: 10, judgeShare: 0.5, population: 2 };

describe("a candidate", () => {
  it("is ended where the share of those before it has better losses", () => {
    const before = [1, 2, 3, 4];
    assert.deepEqual(
      [0.5, 2, 2.5, 3, 9].map((loss) => isEnded(5, loss, before, settings)),
      [false, false, true, true, true],
    );
    assert.ok(!isEnded(5, 3.5, before, { ...settings, judgeShare: 1 }));
    assert.ok(isEnded(5, 1.5, before, { ...settings, judgeShare: 0.2 }));
  });

  it("goes on in the first population, and where none was judged before or all are as bad", () => {
    assert.ok(!isEnded(1, 9, [1], settings));
    assert.ok(!isEnded(5, 9, [], settings));
    assert.ok(!isEnded(5, 1, [1, 1], settings));
  });
});

interface Judging {
  readonly judge: Judge;
  readonly stop: AbortController;
  readonly judged: () => readonly JudgedEvent[];
}

async function judging(files: Files = memoryFiles()): Promise<Judging> {
  await files.makeFolder("/search");
  const log = await SearchLog.open(files, "/search");
  const stop = new AbortController();
  const note = (event: JudgedEvent): Promise<void> => log.append(event);
  return {
    judge: new Judge(settings, { log, signal: stop.signal, note }),
    stop,
    judged: () => log.events.filter((event) => event.event === "judged"),
  };
}
const losses = [3, 1, 2, 4, 1.5, 0.5, 2.5];

describe("the judge of a search", () => {
  const inOrder = [false, false, true, true, false, false, true];

  it("gives the same judgements in whatever order the losses come", async () => {
    for (const order of [
      [0, 1, 2, 3, 4, 5, 6],
      [6, 5, 4, 3, 2, 1, 0],
      [2, 0, 6, 4, 1, 3, 5],
    ]) {
      const { judge, judged } = await judging();
      for (const candidate of losses.keys()) judge.begin(candidate);
      const ended = await Promise.all(
        order.map(async (each) => [each, await judge.isEnded(each, losses[each]!)]),
      );
      assert.deepEqual(
        ended.toSorted(([a], [b]) => Number(a) - Number(b)).map(([, is]) => is),
        inOrder,
      );
      assert.deepEqual(
        judged().map(({ candidate }) => candidate),
        [...losses.keys()],
      );
    }
  });

  it("waits for no candidate that ended without a loss", async () => {
    const { judge } = await judging();
    for (const candidate of [0, 1, 2]) judge.begin(candidate);
    const last = judge.isEnded(2, 2);
    assert.equal(await judge.isEnded(0, 1), false);
    judge.end(1);
    assert.equal(await last, true);
  });

  it("keeps a judgement over a kill, and asks twice without judging twice", async () => {
    const files = memoryFiles();
    const first = await judging(files);
    for (const candidate of [0, 1, 2]) first.judge.begin(candidate);
    await Promise.all([0, 1].map((each) => first.judge.isEnded(each, each)));
    assert.deepEqual(await Promise.all([0, 0].map(() => first.judge.isEnded(2, 0.5))), [true, true]);
    const again = await judging(files);
    for (const candidate of [1, 2, 3]) again.judge.begin(candidate);
    assert.equal(await again.judge.isEnded(2, 0.5), true);
    assert.equal(await again.judge.isEnded(3, 0.75), true);
    assert.equal(again.judged().length, 4);
  });

  it("notes nothing of a stopped search, whose losses are not all known", async () => {
    const { judge, stop, judged } = await judging();
    judge.begin(0);
    judge.begin(1);
    const waiting = judge.isEnded(1, 1);
    stop.abort();
    await assert.rejects(waiting, { code: "TRAINING_STOPPED" });
    judge.begin(2);
    await assert.rejects(judge.isEnded(2, 1), { code: "TRAINING_STOPPED" });
    assert.deepEqual(judged(), []);
  });
});
