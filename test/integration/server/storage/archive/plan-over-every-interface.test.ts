/**
 * `storage plan` and `storage apply` over both interfaces: in process on a home, and through the server that
 * holds it.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { openLocalOperations } from "../../../../../server/operations/local-operations.js";
import { runStemmaHere } from "../../../../helpers/run-stemma-here.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";
import { temporaryFolder } from "../repository/harness.js";
import { assertSame, fileOf, importAll, models, options } from "./planned-family.js";

describe("planning and applying storage", () => {
  it("gives the same result on a home in process and through a server", async (context) => {
    const local = await openLocalOperations({ home: join(await temporaryFolder(context), "home") });
    await importAll(local, "local");
    const server = await startTestServer();
    context.after(() => server.remove());
    await importAll(server.handle.operations, testFleet);
    const remote = connectOperations({ socketPath: server.handle.socketPath }, 5);

    const progress: string[] = [];
    const plans = [
      await local.planStorage({ fleet: "local", ...options }),
      await remote.planStorage(
        { fleet: testFleet, ...options },
        {
          onProgress: (line) => {
            progress.push(line);
          },
        },
      ),
    ];
    assert.deepEqual(plans[0]!.summary.tensors, plans[1]!.summary.tensors);
    const dry = await remote.applyStorage({ fleet: testFleet, ...options, dryRun: true });
    assert.equal(dry.report.rewritten, 0);
    const reports = [
      await local.applyStorage({ fleet: "local", ...options, plan: plans[0]! }),
      await remote.applyStorage({ fleet: testFleet, ...options, plan: plans[1]! }),
    ].map(({ report }) => report);
    for (const report of reports) {
      assert.deepEqual([report.stopped, report.left, report.failed], [null, 0, []]);
      assert.ok(
        report.bytesReached < 0.75 * report.bytesBefore,
        `${report.bytesReached} of ${report.bytesBefore}`,
      );
    }
    await assertSame(local, "local");
    await assertSame(remote, testFleet);
    // Encoded tensors survive a restart.
    await server.restart();
    await assertSame(server.handle.operations, testFleet);
    await local.close();
  });

  it("does nothing for an empty fleet", async (context) => {
    const local = await openLocalOperations({ home: join(await temporaryFolder(context), "home") });
    await local.addDataset({ fleet: "local", name: "cells", kind: "battery-simulated", location: "-" });
    const { report } = await local.applyStorage({ fleet: "local", ...options });
    assert.deepEqual([report.rewritten, report.bytesReached, report.stopped], [0, 0, null]);
    await local.close();
  });
});

describe("the command line", () => {
  it("writes a plan to a file, applies it, and prints the sizes that it reached", async (context) => {
    const folder = await temporaryFolder(context);
    const home = join(folder, "home");
    const file = join(folder, "plan.json");
    for (const { name, base, tensors } of models) {
      await writeFile(join(folder, `${name}.safetensors`), await fileOf(tensors));
      assert.equal(
        (
          await runStemmaHere(
            [
              "model",
              "import",
              join(folder, `${name}.safetensors`),
              "--name",
              name,
              ...(base === undefined ? [] : ["--base", base]),
            ],
            { home },
          )
        ).status,
        0,
      );
    }
    const planned = await runStemmaHere(
      ["storage", "plan", "--budget", "none", "--search", "300ms", "--out", file],
      { home },
    );
    assert.equal(planned.status, 0, planned.stderr);
    assert.match(planned.stdout, /as differences: \d+ tensors/);
    assert.match(planned.stdout, /^found by  /m);
    const dry = await runStemmaHere(["storage", "apply", "--plan", file, "--dry-run", "-o", "json"], {
      home,
    });
    const { report } = JSON.parse(dry.stdout) as { report: { left: number; rewritten: number } };
    assert.ok(report.left > 0 && report.rewritten === 0);
    const applied = await runStemmaHere(["storage", "apply", "--plan", file], { home });
    assert.equal(applied.status, 0, applied.stderr);
    assert.match(applied.stdout, /tensors rewritten/);
    assert.match(applied.stdout, /predicted/);
    for (const { name, tensors } of models) {
      await runStemmaHere(["model", "recover", name, "--file", join(folder, "back.safetensors"), "--force"], {
        home,
      });
      assert.equal(
        Buffer.compare(await readFile(join(folder, "back.safetensors")), await fileOf(tensors)),
        0,
      );
    }
    assert.equal((await runStemmaHere(["storage", "check"], { home })).status, 0);
    for (const [args, status] of [
      [["--budget", "0.5x"], 2],
      [["--scheme", "odd"], 2],
      [["--layout", "odd"], 2],
      [["--plan", join(folder, "none")], 3],
      [["--plan", join(folder, "back.safetensors")], 4],
      [["--disk", "much"], 2],
      [["--time", "soon"], 2],
    ] as const) {
      assert.equal(
        (await runStemmaHere(["storage", "apply", ...args], { home })).status,
        status,
        args.join(" "),
      );
    }
  });
});
