// Kills the agent while it sends a large data object: the next process goes on from the blocks that the server
// has, and the version arrives whole.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { openRepository } from "../../../server/storage/repository/open-repository.js";
import { openNodeHome } from "../../../server/storage/repository/node-home.js";
import { nodeClock, nodeRandom, silentLog } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { opaqueModelSource } from "../../../shared/save/model-source.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { noiseBytes } from "../../helpers/noise-bytes.js";
import { streamedBytes, streamOf } from "../../helpers/object-stores.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const program = fileURLToPath(new URL("./agent-child.js", import.meta.url));
const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const kills = isFull ? 20 : 1;
const data = noiseBytes(isFull ? 80_000_000 : 1_500_000, 51);

it("sends a large data object whole, although it is killed meanwhile", async (t) => {
  const server = await startTestServer();
  const home = await mkdtemp(join(tmpdir(), "stemma-large-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  const outbox = await Outbox.open({
    files: nodeFiles(),
    folder: join(home, "outbox"),
    clock: nodeClock(),
    random: nodeRandom(),
    log: silentLog(),
  });
  const { versionId, record } = await outbox.saveTrained(
    opaqueModelSource([{ name: "w", dtype: "F32", shape: [1000], bytes: noiseBytes(4000, 52) }]),
    {
      name: "large",
      fleet: testFleet,
      device: "v1",
      line: "cam",
      base: undefined,
      metric: null,
      samples: null,
      environment: { backend: "none" },
      uses: { data: [{ source: streamOf(data) }] },
    },
  );
  await outbox.close();
  await writeFile(join(home, "enrolment.json"), JSON.stringify(await server.enroll("v1", ["cam"])));
  const settings = join(home, "test-settings.json");
  const lines = { cam: { recipe: "fake", dataset: { reader: "images-generated" } } };
  const spool = join(server.home, "fleets", testFleet, "spool");
  const isRecorded = async (): Promise<boolean> =>
    (await server.handle.operations.models({ fleet: testFleet })).length > 0;
  for (let round = 0; round <= kills; round++) {
    const isLast = round === kills;
    const profile = { "link.blockBytes": 16_384, "link.bytesPerSecond": isLast ? null : data.length / 4 };
    await writeFile(settings, JSON.stringify({ config: { format: 1, lines }, profile }));
    const child = spawn(process.execPath, [program, home, settings], { stdio: "ignore" });
    const ended = new Promise((resolve) => child.once("exit", resolve));
    const states = async (): Promise<boolean> =>
      (await readdir(spool)).some((name) => name.endsWith(".state"));
    await pollUntil(
      isLast ? "the model is recorded" : "a state file of the transfer",
      isLast ? isRecorded : states,
    );
    child.kill("SIGKILL");
    await ended;
  }
  await server.handle.close();
  const opened = await openNodeHome(server.home);
  const repository = await openRepository(opened, testFleet);
  try {
    assert.equal(repository.get(versionId)?.record.format, 2);
    const id = record.uses?.data?.find((one) => one !== undefined) as Hash;
    assert.deepEqual(Buffer.from(await streamedBytes(repository.objects, "data", id)), Buffer.from(data));
    assert.deepEqual((await repository.check()).problems, []);
  } finally {
    await repository.close();
    await opened.close();
    await rm(server.home, { recursive: true, force: true });
  }
});
