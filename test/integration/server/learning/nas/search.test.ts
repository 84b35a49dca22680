/** A search for architectures keeps only its population, inherits layers, and goes on after a kill. */
import assert from "node:assert/strict";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { SearchState } from "../../../../../server/learning/nas/run-search.js";
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

  it("takes over layers of earlier candidates, trains the others, and stores only what is new", async () => {
    const { operations } = home;
    assert.equal(first.done.size, request.candidates);
    const inherited = [...first.done.values()].filter(({ frozen }) => frozen > 0);
    assert.ok(inherited.length > 0);
    for (const {
      candidate,
      versionId,
      ancestor,
      bytes,
      newBytes,
      frozen,
      layers,
      quality,
    } of first.done.values()) {
      if (!first.retired.has(candidate)) {
        const { metadata, record } = await operations.model({ fleet: "search", model: versionId });
        assert.equal(metadata?.["search.candidate"], candidate);
        assert.equal(metadata["quality"], quality);
        assert.deepEqual(record.bases, ancestor === null ? [] : [ancestor.versionId]);
      }
      if (frozen > 1) assert.ok(newBytes < bytes, `candidate ${candidate}`);
      assert.ok(frozen < layers);
    }
  });

  it("retires what left the population, and nothing else", async () => {
    const { operations } = home;
    const live = await operations.models({ fleet: "search" });
    assert.equal(live.length, request.population);
    assert.equal(first.retired.size, request.candidates - request.population);
    for (const { candidate, versionId } of first.done.values())
      assert.equal(
        live.some((each) => each.versionId === versionId),
        !first.retired.has(candidate),
      );
  });

  it("retires a model that a killed process stored without noting it, and makes it again", async () => {
    const { operations, folder } = await searches.open("unnoted");
    await run({ operations, folder }, { candidates: 2 });
    const path = join(folder, "log.jsonl");
    const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
    assert.match(lines.at(-1)!, /"done","candidate":1/);
    await writeFile(path, `${lines.slice(0, -1).join("\n")}\n`);
    const again = await run({ operations, folder }, { candidates: 2 });
    assert.deepEqual(rootsOf(again), (rootsOf(first) as unknown[]).slice(0, 2));
    assert.equal((await operations.models({ fleet: "search" })).length, 2);
  });

  it("goes on where the end of its log was cut off, and not where another line was changed", async () => {
    const { folder } = home;
    const log = join(folder, "log.jsonl");
    const whole = await readFile(log);
    await appendFile(log, '0123456789abcdef {"event":"prop');
    assert.equal(
      (await SearchLog.open(nodeFiles(), folder)).events.length,
      whole.toString().split("\n").length - 1,
    );
    await writeFile(
      log,
      whole.map((byte, at) => (at === 100 ? byte ^ 1 : byte)),
    );
    await assert.rejects(SearchLog.open(nodeFiles(), folder), { code: "SEARCH_DAMAGED" });
    await writeFile(log, whole);
  });
});
