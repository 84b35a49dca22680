/** The fleets of a home: each that can take nothing more is reported, whoever opened it and for whatever work. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { faultyFiles } from "../../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";
import { modelOf, tensorsOf } from "../../../../integration/server/storage/repository/harness.js";

it("a fleet whose journal or store fails is reported, also one that a command began meanwhile", async () => {
  for (const work of ["fact", "model"] as const) {
    let isFailing = false;
    const files = faultyFiles(memoryFiles(), ({ kind }) =>
      isFailing && kind === "sync" ? { code: "EIO" } : undefined,
    );
    const home = await openHome("/home", { files, clock: manualClock(), random: seededRandom(work) });
    const fleets = openFleets(home);
    const reported: string[] = [];
    void fleets.failed.then(({ code }) => reported.push(code));
    await fleets.get("one", { create: true });
    const begun = await fleets.get("begun-later", { create: true });
    await begun.save(modelOf(tensorsOf("before")), { name: "m" });
    assert.deepEqual(reported, []);
    isFailing = true;
    await assert.rejects(
      work === "model"
        ? begun.save(modelOf(tensorsOf("after")), { name: "m" })
        : begun.append({
            type: "tagged",
            atMs: 0,
            name: "m",
            tag: "t",
            versionId: begun.resolve("m:1").versionId,
          }),
    );
    assert.equal((await fleets.failed).code, work === "model" ? "STORE_FAILED" : "JOURNAL_STOPPED");
    isFailing = false;
    await fleets.close();
    await home.close();
  }
});
