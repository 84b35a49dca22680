/** A search for architectures repeats bit for bit, also after a stop at any event; several workers share it. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import {
  searchState,
  type SearchRequest,
  type SearchState,
} from "../../../../../server/learning/nas/run-search.js";
import { SearchLog } from "../../../../../server/learning/nas/search-log.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { request, rootsOf, run, Searches, type OpenedSearch } from "./search-fixture.js";

/** Stops the search after its first event, then after two more, and so on, until it is finished. */
async function stoppedAtEveryEvent(
  cut: OpenedSearch,
  change: Partial<SearchRequest> = {},
): Promise<SearchState> {
  for (let events = 1; ; events++) {
    let seen = 0;
    try {
      await run(cut, change, { stopAfter: () => ++seen === events });
    } catch (error) {
      assert.equal((error as { code?: string }).code, "TRAINING_STOPPED");
    }
    const state = searchState((await SearchLog.open(nodeFiles(), cut.folder)).events);
    if (state.finished === { ...request, ...change }.candidates) return state;
    assert.ok(events < 50);
  }
}

describe("a search for architectures", () => {
  let searches: Searches;
  let home: OpenedSearch;
  let first: SearchState;
  before(async () => {
    searches = await Searches.start();
    home = await searches.open("first");
    first = await run(home);
  });
  after(() => searches.close());

  it("gives the same models again with one worker, in another home", async () => {
    assert.deepEqual(rootsOf(await run(await searches.open("again"))), rootsOf(first));
  });

  it("gives the same models after it was stopped at every event and continued", async () => {
    assert.deepEqual(rootsOf(await stoppedAtEveryEvent(await searches.open("cut"))), rootsOf(first));
  });

  it("ends candidates early by their losses alone: again, stopped at every event, and with several workers", async () => {
    const judging = { judgeAfter: 2, judgeShare: 0.3, candidates: 7, keepAll: true };
    const judgedOf = ({ ended }: SearchState): unknown =>
      [...ended.values()].toSorted((a, b) => a.candidate - b.candidate);
    const whole = await searches.open("judged");
    const judged = await run(whole, judging);
    assert.ok(judged.ended.size > 0 && judged.done.size >= request.population);
    assert.equal(judged.finished, 7);
    const models = await whole.operations.models({ fleet: "search" });
    assert.equal(models.length, judged.done.size, "no candidate that was ended is a model");

    const cut = await searches.open("judged-cut");
    const state = await stoppedAtEveryEvent(cut, judging);
    assert.deepEqual([rootsOf(state), judgedOf(state)], [rootsOf(judged), judgedOf(judged)]);

    const random = { ...judging, strategy: "random", transfer: false } as const;
    const [one, several] = [
      await run(await searches.open("judged-one"), random),
      await run(await searches.open("judged-several"), random, { workers: 3 }),
    ];
    assert.deepEqual([rootsOf(several), judgedOf(several)], [rootsOf(one), judgedOf(one)]);
  });

  it("makes every candidate once with several workers", async () => {
    const { done, failed } = await run(await searches.open("workers"), { transfer: false }, { workers: 3 });
    const all = Array.from({ length: request.candidates }, (_, candidate) => candidate);
    assert.deepEqual([[...done.keys()].toSorted((a, b) => a - b), failed.size], [all, 0]);
    for (const { ancestor, bytes, newBytes } of done.values())
      assert.deepEqual([ancestor, newBytes], [null, bytes]);
  });
});
