/** How devices and commands reach a server: addresses in enrolment files, taken ports, a server that starts. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { awaitLocalServer, runningServerFile } from "../../../../server/interface/http/local-server.js";
import { openNodeHome } from "../../../../server/storage/repository/node-home.js";
import { parseEnrolment, type Enrolment } from "../../../../shared/trust/enrolment.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";
import { runStemma, spawnStemma } from "../../../helpers/run-stemma.js";
import { startServerProcess } from "../../../../server/cli/simulation/server-process.js";
import { startTestServer } from "../../../helpers/test-server.js";

describe("reaching a server", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-reach-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  const enrolmentIn = async (file: string): Promise<Enrolment> =>
    parseEnrolment(JSON.parse(await readFile(file, "utf8")));
  const newHome = (): Promise<string> => mkdtemp(join(folder, "home-"));

  it("by its public addresses, which enrolment files then contain", async () => {
    const home = await newHome();
    const urls = ["mqtts://a.example:8883", "mqtt://b.example:1883", "https://a.example"];
    const server = await startServerProcess(home, "local", {
      options: urls.flatMap((url) => ["--public-url", url]),
    });
    try {
      const file = join(folder, "public.json");
      const enrolled = await runStemmaHere(
        ["device", "enroll", "car", "--token", "--line", "l", "--file", file],
        { home },
      );
      assert.equal(enrolled.status, 0, enrolled.stderr);
      assert.equal(enrolled.stderr.includes("warning"), false, enrolled.stderr);
      const { mqtt, http } = await enrolmentIn(file);
      assert.deepEqual([mqtt, http], [urls.slice(0, 2), urls[2]]);
    } finally {
      await server.kill("SIGTERM");
    }
    const refused = await runStemmaHere(["server", "--public-url", "stemma.example"], { home });
    assert.deepEqual([refused.status, refused.stderr.includes("[USAGE]")], [2, true]);
  });

  it("by new addresses in the same enrolment", async () => {
    const home = await newHome();
    const file = join(folder, "car.json");
    const listen = { tls: "none" };
    await writeFile(join(home, "server.json"), JSON.stringify({ format: 1, listen }));
    const enrolled = await runStemmaHere(
      ["device", "enroll", "car", "--token", "--line", "l", "--file", file],
      {
        home,
      },
    );
    assert.match(enrolled.stderr, /mqtt:\/\/127\.0\.0\.1:1883 .*--public-url/);
    const first = await enrolmentIn(file);
    const settings = { format: 1, listen, enrolment: { mqttUrls: ["mqtt://new.example:1883"] } };
    await writeFile(join(home, "server.json"), JSON.stringify(settings));
    const dry = await runStemmaHere(["device", "enroll", "car", "--readdress", file, "--dry-run"], { home });
    assert.equal(dry.status, 0, dry.stderr);
    assert.deepEqual(await enrolmentIn(file), first);
    const readdressed = await runStemmaHere(["device", "enroll", "car", "--readdress", file], { home });
    assert.equal(readdressed.status, 0, readdressed.stderr);
    const moved = await enrolmentIn(file);
    const { checksum } = moved;
    assert.notEqual(checksum, first.checksum);
    assert.deepEqual(moved, { ...first, mqtt: settings.enrolment.mqttUrls, checksum });

    const second = join(folder, "second.json");
    await runStemmaHere(["device", "enroll", "car", "--token", "--line", "l", "--file", second], { home });
    for (const [device, old] of [
      ["car", file],
      ["van", second],
    ] as const) {
      const refused = await runStemmaHere(["device", "enroll", device, "--readdress", old], { home });
      assert.notEqual(refused.status, 0);
      assert.match(refused.stderr, /ENROLMENT_INVALID|DEVICE_UNKNOWN/);
    }
  });

  it("not on a port that another program has", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const taken = String((other.address() as AddressInfo).port);
    try {
      for (const [run, ...ports] of [
        [runStemma, "--mqtt-port", taken, "--http-port", "0"],
        [runStemmaHere, "--mqtt-port", "0", "--http-port", taken],
      ] as const) {
        const refused = await run(["server", ...ports], { home: await newHome() });
        assert.equal(refused.status, 1);
        assert.match(refused.stderr, new RegExp(`port ${taken} .*\\[PORT_TAKEN\\]`));
      }
    } finally {
      other.close();
    }
  });

  it("a token is not thought to be limited by --fleet, which names no fleets of a token", async () => {
    const home = await newHome();
    const add = (...more: string[]): ReturnType<typeof runStemmaHere> =>
      runStemmaHere(["token", "add", "ci", "--role", "releaser", ...more], { home });
    assert.match((await add("--fleet", "cars")).stderr, /--fleets cars.*\[USAGE\]/s);
    assert.match((await add()).stderr, /for all fleets/);
  });

  it("not while another command has the home, beside which a question is answered", async () => {
    const home = await newHome();
    assert.equal((await runStemmaHere(["token", "add", "reader", "--role", "viewer"], { home })).status, 0);
    const other = await openNodeHome(home);
    try {
      const listed = await runStemma(["token", "list", "-o", "name"], { home });
      assert.deepEqual([listed.status, listed.stdout], [0, "reader\n"]);
      assert.match(listed.stderr, new RegExp(`^stemma: note: process ${process.pid} .* has this home`));
      const refused = await runStemma(["token", "rm", "reader", "--wait", "0"], { home });
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, new RegExp(`in use by process ${process.pid} .*HOME_LOCKED`));
    } finally {
      await other.close();
    }
  });

  it("not while another command has the home, for which a change waits", async () => {
    const home = await newHome();
    const other = await openNodeHome(home);
    const adding = spawnStemma(["token", "add", "waiter", "--role", "viewer", "--home", home, "-o", "name"]);
    let stderr = "";
    let isReleased = false;
    adding.stderr.on("data", (text: Buffer) => {
      stderr += text.toString();
      if (isReleased || !stderr.includes(`waiting for process ${process.pid} (`)) return;
      isReleased = true;
      void other.close();
    });
    const [status] = (await once(adding, "close")) as [number];
    assert.deepEqual([status, isReleased], [0, true], stderr);
    assert.equal((await runStemmaHere(["token", "list", "-o", "name"], { home })).stdout, "waiter\n");
  });

  it("while it starts, by waiting for it", async () => {
    const server = await startTestServer();
    try {
      const runFile = join(
        (JSON.parse(await readFile(join(server.home, "run.json"), "utf8")) as { folder: string }).folder,
        runningServerFile,
      );
      const running = await readFile(runFile, "utf8");
      let pauses = 0;
      const waits: number[] = [];
      const find = (attempts: number, pid: number): ReturnType<typeof awaitLocalServer> => {
        pauses = 0;
        return writeFile(runFile, JSON.stringify({ pid, startingAtMs: 1 })).then(() =>
          awaitLocalServer(server.home, {
            onWait: (waited) => waits.push(waited.pid),
            pause: async () => {
              if (++pauses === 3) await writeFile(runFile, running);
            },
            attempts,
          }),
        );
      };
      assert.equal((await find(10, process.pid))?.pid, process.pid);
      assert.deepEqual([pauses, waits], [3, [process.pid]]);
      await assert.rejects(find(2, process.pid), { code: "TIMED_OUT" }, "the wait is bounded");
      assert.equal(pauses, 2);
      const noProcess = 2 ** 22 + 1;
      assert.equal(
        await find(10, noProcess),
        undefined,
        "a server that ended while it started is not awaited",
      );
      assert.equal(pauses, 0);
      await writeFile(runFile, running);
    } finally {
      await server.remove();
    }
  });
});
