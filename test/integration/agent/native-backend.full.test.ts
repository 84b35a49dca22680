/**
 * A device whose profile names the native backend, on a TensorFlow that is fetched where it can be had: linked and
 * checked, trained on, crashed in the middle of a step, and out of memory.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { appendFile, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { nativeFolder, type Link } from "../../../agent/backend/link-file.js";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import { environmentForTraining } from "../../../shared/train/training-environment.js";
import { judgeEnvironment } from "../../../shared/model/environment.js";
import { trainInChild, type ChildOptions } from "../../../shared/train/train-in-child.js";
import type { TrainingJob } from "../../../shared/train/training.js";
import { testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { nativeLibrary } from "../../helpers/native-library.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../helpers/test-server.js";

const library = await nativeLibrary();
const program = fileURLToPath(new URL("../../../agent/cli/main.js", import.meta.url));
const run = promisify(execFile);

async function backend(home: string, ...args: readonly string[]): Promise<Link> {
  const command = [program, "backend", ...args, "--home", home, "-o", "json"];
  const { stdout } = await run(process.execPath, command, { timeout: 300_000 });
  return JSON.parse(stdout) as Link;
}

/** Runs a command that fails, and returns its exit status and what it says. */
async function failing(home: string, ...args: readonly string[]): Promise<readonly [unknown, string]> {
  try {
    await backend(home, ...args);
  } catch (error) {
    const { code, stderr } = error as { readonly code?: unknown; readonly stderr?: string };
    return [code, stderr ?? ""];
  }
  return assert.fail(`backend ${args.join(" ")} did not fail`);
}

/** Sends a signal to the process that trains in a folder. */
async function signalTraining(workFolder: string, signal: NodeJS.Signals): Promise<void> {
  for (const name of await readdir("/proc")) {
    const command = await readFile(join("/proc", name, "cmdline"), "utf8").catch(() => "");
    if (/^\d+$/.test(name) && command.includes(join(workFolder, "job"))) process.kill(Number(name), signal);
  }
}

if ("whyNot" in library) test("native backend", { skip: library.whyNot }, () => undefined);
else
  describe("a device with a TensorFlow of its own", { timeout: 580_000 }, () => {
    const line = "soh";
    let server: TestServer;
    let operations: ServerOperations;
    let home: string;
    let link: Link;
    let agent: AgentHandle | undefined;
    let log = new WaitableLog();
    const jobs: { readonly job: TrainingJob; readonly child: ChildOptions }[] = [];
    /** The signal that the next native training gets in the middle of a step. */
    let crash: NodeJS.Signals | undefined;
    let hasBase = false;

    before(async () => {
      server = await startTestServer();
      ({ operations } = server.handle);
      const parameters = { vehicle: 1 };
      await operations.addDataset({
        fleet,
        name: "cells",
        kind: "battery-simulated",
        location: "",
        parameters,
      });
      await operations.train({
        fleet,
        recipe: "battery-soh",
        data: "cells",
        name: "base",
        parameters: { epochs: 1 },
      });
      home = await mkdtemp(join(tmpdir(), "stemma-native-"));
      const enrolment = await server.enroll("van", [line], { [line]: "base" });
      await writeFile(join(home, "enrolment.json"), JSON.stringify(server.withCurrentAddress(enrolment)));
      link = await backend(home, "link", "--libtensorflow", library.folder, "--threads", "1");
    });
    after(async () => {
      await agent?.close();
      await server.remove();
      await rm(home, { recursive: true, force: true });
    });

    /** (Re)starts the agent with these backends. */
    async function start(backends: readonly string[], memoryLimitMb = 2048): Promise<void> {
      await agent?.close();
      log = new WaitableLog();
      agent = await startAgent(
        {
          home,
          config: {
            format: 1,
            lines: {
              [line]: {
                recipe: "battery-soh",
                parameters: { epochs: 3 },
                dataset: { reader: "battery-simulated", parameters: { vehicle: 2 } },
                schedule: { everySeconds: null, afterSamples: null },
              },
            },
          },
          profile: testProfile({ "training.backends": backends, "training.memoryLimitMb": memoryLimitMb }),
          log,
        },
        {
          train: async (job, child) => {
            jobs.push({ job, child });
            const isNative = child.engineFolder !== undefined;
            return await trainInChild(job, {
              ...child,
              onProgress: (progress) => {
                child.onProgress?.(progress);
                if (!isNative || crash === undefined || (progress.iteration ?? 0) < 1) return;
                void signalTraining(child.workFolder, crash);
                crash = undefined;
              },
            });
          },
        },
      );
      if (!hasBase) await log.until("activated", 1, {});
      hasBase = true;
    }

    /** Trains on the device; resolves when the server has the model. */
    async function train(): Promise<string> {
      const { versionId } = await (agent as AgentHandle).train(line);
      await log.until("stored", 1, { versionId });
      return versionId;
    }

    it("links it, and finds out whether it is still what was linked", async () => {
      assert.deepEqual(
        [link.class.tensorflow, link.class.threads, link.class.gpu, link.binding.from],
        ["2.18.1", 1, undefined, "compiled"],
      );
      assert.match(link.class.referenceTraining, /^[0-9a-f]{64}$/, "two runs agree on a CPU");
      assert.ok(link.probe.worst.error < 1e-5 && link.probe.compared > 40, JSON.stringify(link.probe));
      assert.equal((await backend(home, "check")).runner, link.runner);
      // The same again is the same class; a binding from elsewhere does not change it.
      const binding = join(nativeFolder(home), "lib/napi-v8/tfjs_binding.node");
      const taken = join(home, "taken.node");
      await writeFile(taken, await readFile(binding));
      const again = await backend(
        home,
        "link",
        "--libtensorflow",
        library.folder,
        "--threads",
        "1",
        "--binding",
        taken,
      );
      assert.deepEqual([again.runner, again.binding.from], [link.runner, "taken"]);
      const { size } = await appendTo(binding);
      const [status, text] = await failing(home, "check");
      assert.deepEqual([status, /The binding is not what was linked/.test(text)], [4, true], text);
      await truncate(binding, size);
      await backend(home, "check");
    });

    it("refuses a probe without memory, and leaves what is linked", async () => {
      const limited = ["link", "--libtensorflow", library.folder, "--memory-limit", "64"];
      const [status, text] = await failing(home, ...limited);
      assert.deepEqual([status, /too little memory .*64 MiB/.test(text)], [1, true], text);
      assert.equal((await backend(home, "check")).runner, link.runner);
    });

    it("trains on it twice alike, in a process with a limit, and nearly as wasm does", async () => {
      const job = { ...(await jobOf()), threads: 1 };
      const metrics: number[] = [];
      const models: Buffer[] = [];
      for (const options of [
        { engineFolder: nativeFolder(home), processLimitMb: 2048 },
        { engineFolder: nativeFolder(home) },
        {},
      ]) {
        const workFolder = await mkdtemp(join(tmpdir(), "stemma-native-work-"));
        const outcome = await trainInChild(job, { workFolder, ...options });
        metrics.push(outcome.result.metric?.after ?? NaN);
        models.push(await readFile(outcome.modelFile));
        await rm(workFolder, { recursive: true, force: true });
      }
      assert.ok(models[0]?.equals(models[1] as Buffer), "two trainings on it give the same bytes");
      assert.ok(!models[0]?.equals(models[2] as Buffer), "another class has other bits");
      const [native, , wasm] = metrics as [number, number, number];
      assert.ok(Math.abs(native - wasm) < 0.01 * Math.abs(wasm), `${native} against ${wasm}`);
    });

    it("saves a version of its class, which no server replays and every one recovers", async () => {
      await start(["native", "wasm"]);
      const versionId = await train();
      const shown = await operations.model({ fleet, model: versionId });
      const environment = shown.environment as Readonly<Record<string, string>>;
      assert.deepEqual(
        [environment["backend"], environment["engine"], environment["library.tensorflow.sha256"]],
        ["native", link.runner, link.class.library],
      );
      assert.match(
        environment["loadOrder"] ?? "",
        /libc\.so.*libtensorflow_cc\.so\.2, libtensorflow_framework/,
      );
      assert.equal(environment["backendOrder"], "tensorflow, cpu");
      assert.equal(judgeEnvironment(environment, await environmentForTraining("1")).verdict, "different");
      const { verdict, reason, text } = await operations.replay({ fleet, model: versionId });
      assert.deepEqual([verdict, reason], ["unreplayable", "other-class"], text);
      await operations.verify({ fleet, model: versionId });
      assert.match((await (agent as AgentHandle).status()).backend, /^native: libtensorflow 2\.18\.1/);
    });

    for (const signal of ["SIGSEGV", "SIGKILL", "SIGABRT"] as const)
      it(`reports a ${signal} in the middle of a step, and trains the same job on wasm`, async () => {
        await start(["native", "wasm"]);
        crash = signal;
        const failed = log.next("native-failed", { line });
        const versionId = await train();
        assert.match(String((await failed).fields["text"]), new RegExp(`killed by ${signal}`));
        const { verdict, grade, text } = await operations.replay({ fleet, model: versionId });
        assert.deepEqual([verdict, grade], ["proved", "bit-exact"], text);
      });

    it("trains on wasm where the profile leaves too little memory for the process", async () => {
      await start(["native", "wasm"], 128);
      assert.match((await (agent as AgentHandle).status()).backend, /^wasm: .* needs 256 MiB/);
      assert.equal((await operations.replay({ fleet, model: await train() })).verdict, "proved");
    });

    it("fails with a crash where the profile names no other backend", async () => {
      await start(["native"]);
      crash = "SIGSEGV";
      await assert.rejects((agent as AgentHandle).train(line), {
        code: "BACKEND_UNAVAILABLE",
        message: /The native backend failed: .*SIGSEGV/,
      });
      const { versionId } = await (agent as AgentHandle).train(line);
      assert.match(versionId, /^[0-9a-f]{64}$/, "the next training begins again");
    });

    it("trains on wasm once it is unlinked", async () => {
      await backend(home, "unlink");
      await start(["native", "wasm"]);
      assert.match((await (agent as AgentHandle).status()).backend, /^wasm: .* no libtensorflow is linked/);
      assert.equal((await operations.replay({ fleet, model: await train() })).verdict, "proved");
      const [status, text] = await failing(home, "check");
      assert.deepEqual([status, /No libtensorflow is linked/.test(text)], [1, true], text);
    });

    /** A job as the agent gave it, with a base that is still there. */
    async function jobOf(): Promise<TrainingJob> {
      return {
        format: 2,
        recipe: "battery-soh",
        parameters: { epochs: 2 },
        dataset: { reader: "battery-simulated", parameters: { vehicle: 3 } },
        seed: "7",
        invocation: 0,
      };
    }
  });

async function appendTo(path: string): Promise<{ readonly size: number }> {
  const { length } = await readFile(path);
  await appendFile(path, "x");
  return { size: length };
}
