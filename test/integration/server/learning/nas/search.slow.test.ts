/** A search for architectures repeats bit for bit, also after a stop at any event; several workers share it. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { searchState, type SearchState } from "../../../../../server/learning/nas/run-search.js";
import { SearchLog } from "../../../../../server/learning/nas/search-log.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { request, rootsOf, run, Searches, type OpenedSearch } from "./search-fixture.js";

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
    const cut = await searches.open("cut");
    for (let events = 1; ; events++) {
      let seen = 0;
      try {
        await run(cut, {}, { stopAfter: () => ++seen === events });
      } catch (error) {
        assert.equal((error as { code?: string }).code, "TRAINING_STOPPED");
      }
      const log = await SearchLog.open(nodeFiles(), cut.folder);
      if (searchState(log.events).done.size === request.candidates) break;
      assert.ok(events < 50);
    }
    const log = await SearchLog.open(nodeFiles(), cut.folder);
    assert.deepEqual(rootsOf(searchState(log.events)), rootsOf(first));
  });

  it("makes every candidate once with several workers", async () => {
    const { done, failed } = await run(await searches.open("workers"), { transfer: false }, { workers: 3 });
    const all = Array.from({ length: request.candidates }, (_, candidate) => candidate);
    assert.deepEqual([[...done.keys()].toSorted((a, b) => a - b), failed.size], [all, 0]);
    for (const { ancestor, bytes, newBytes } of done.values())
      assert.deepEqual([ancestor, newBytes], [null, bytes]);
  });
});
