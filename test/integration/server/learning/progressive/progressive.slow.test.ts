/** Classification from the high-order bytes, in every layout: the full answers, from part of the bytes. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { localOperations, openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { workFolderOf } from "../../../../../server/services/context/work-folder.js";
import { encodingCodes } from "../../../../../shared/delta/encoded.js";

it("gives the full-precision answers, from part of the bytes where that is certain, and refuses models without classes", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-progressive-"));
  const fleet = "local";
  const operations = await openLocalOperations({ home });
  try {
    await operations.addDataset({
      fleet,
      name: "shapes",
      kind: "images-generated",
      location: "",
      parameters: { count: 400 },
    });
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    await operations.train({
      fleet,
      recipe: "image-classify",
      data: "shapes",
      name: "pictures",
      seed: "3",
      parameters: { epochs: 2, model: "lenet-5" },
    });
    const full = await operations.evaluate({ fleet, model: "pictures", data: "shapes", top: 5, limit: 40 });
    assert.ok(full.evaluation.task === "classification");
    for (const layout of ["stored", "fixed"] as const) {
      const report = await operations.evaluateProgressively({
        fleet,
        model: "pictures",
        data: "shapes",
        limit: 40,
        layout,
      });
      assert.deepEqual(
        report.tops.map(({ top, correct, equal, unanswerable }) => ({ top, correct, equal, unanswerable })),
        [
          { top: 1, correct: full.evaluation.correct, equal: true, unanswerable: 0 },
          { top: 5, correct: full.evaluation.top?.correct, equal: true, unanswerable: 0 },
        ],
      );
      for (const at of [0, 1])
        assert.equal(
          report.levels.reduce((sum, { tops }) => sum + tops[at]!.decided, 0),
          40,
        );
      // Fixed planes decide with two bytes what IEEE 754's byte order needs three for.
      const known = report.levels.filter(({ level }) => level <= (layout === "fixed" ? 2 : 3));
      const answered = known.reduce((sum, { tops }) => sum + tops[0]!.decided, 0);
      assert.ok(answered >= 36, `${answered} of 40 answered before all bytes were known (${layout})`);
      // Tensors stored raw are read completely.
      assert.ok(
        known.every(({ dataShare }, at) =>
          layout === "stored"
            ? dataShare === 1
            : dataShare < 1 && (at === 0 || dataShare > known[at - 1]!.dataShare),
        ),
      );
    }
    const unchecked = await operations.evaluateProgressively({
      fleet,
      model: "pictures",
      data: "shapes",
      limit: 5,
      tops: [2],
      check: false,
      layout: "fixed",
    });
    assert.deepEqual(
      unchecked.tops.map(({ top, equal }) => [top, equal]),
      [[2, null]],
    );

    await assert.rejects(operations.evaluateProgressively({ fleet, model: "pictures", data: "cells" }), {
      code: "USAGE",
    });
    for (const wrong of [{ tops: [0] }, { tops: [] }, { limit: 0.5 }])
      await assert.rejects(
        operations.evaluateProgressively({ fleet, model: "pictures", data: "shapes", ...wrong }),
        { code: "USAGE" },
      );
    const stop = new AbortController();
    const stopped = operations.evaluateProgressively(
      { fleet, model: "pictures", data: "shapes" },
      { signal: stop.signal },
    );
    stop.abort();
    await assert.rejects(stopped, { code: "INTERRUPTED" });
    assert.deepEqual(await readdir(workFolderOf({ path: home })), []);
  } finally {
    await operations.close();
    await rm(home, { recursive: true, force: true });
  }
});

it("reads no more of byte planes and fixed planes than the answers need", async () => {
  const path = await mkdtemp(join(tmpdir(), "stemma-progressive-"));
  const home = await openNodeHome(path);
  const fleets = openFleets(home);
  const fleet = "local";
  const operations = localOperations({ home, fleets, version: "test" });
  try {
    await operations.addDataset({
      fleet,
      name: "shapes",
      kind: "images-generated",
      location: "",
      parameters: { count: 400 },
    });
    const { summary } = await operations.train({
      fleet,
      recipe: "image-classify",
      data: "shapes",
      name: "pictures",
      seed: "3",
      parameters: { epochs: 2, model: "lenet-5" },
    });
    const repository = await fleets.get(fleet);
    const { objects } = repository;
    const own = await repository.leaves(summary.versionId);
    const ask = { fleet, model: "pictures", data: "shapes", limit: 30 };
    const answered: number[] = [];
    for (const [layout, code] of [
      ["planes", encodingCodes.planes],
      ["fixed", encodingCodes.fixedPlanes],
    ] as const) {
      await operations.applyStorage({
        fleet,
        ratio: null,
        scheme: "independent",
        layout,
        timeLimitMs: 500,
        readBytesPerSecond: 1e8,
      });
      assert.ok(own.filter(({ tensor }) => objects.encodingOf(tensor)?.code === code).length >= 2);
      const { levels, tops, totalBytes } = await operations.evaluateProgressively({ ...ask, check: true });
      assert.ok(tops.every(({ equal }) => equal === true));
      assert.equal(
        totalBytes,
        own.reduce((sum, { tensor }) => sum + objects.encodingOf(tensor)!.storedBytes, 0),
      );
      const read = levels.map(({ readBytes }) => readBytes);
      assert.ok(
        read.every((bytes, at) => at === 0 || bytes > read[at - 1]!) &&
          read[0]! < 0.35 * totalBytes &&
          (read[2] ?? 0) < 0.9 * totalBytes,
        `${layout}: read ${read.join(", ")} of ${totalBytes} bytes`,
      );
      for (const { dataShare, readBytes } of levels) assert.equal(dataShare, readBytes / totalBytes);
      answered.push(
        levels.filter(({ level }) => level <= 2).reduce((sum, { tops: [first] }) => sum + first!.decided, 0),
      );
    }
    assert.ok(
      answered[1]! > answered[0]! && answered[1]! >= 25,
      `two bytes of fixed planes answer ${answered[1]} of 30, of byte planes ${answered[0]}`,
    );
  } finally {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  }
});
