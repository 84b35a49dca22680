/**
 * What short commands load. Most of the time of a command that shows a few rows goes into loading modules and building
 * their schemas, so the modules are counted: with a server and without, from the single files, of which the bundle
 * runs the same ones.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { openLocalOperations } from "../../../../server/operations/local-operations.js";
import { newHomeWithTokens } from "../../../helpers/home-with-tokens.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../helpers/test-server.js";

const dist = resolve(dirname(fileURLToPath(import.meta.url)), "../../../..");
/** Prints the URL of every module that is loaded. */
const hooks = `import { writeSync } from "node:fs";
export async function load(url, context, next) { writeSync(2, "loads " + url + "\\n"); return next(url, context); }`;
const preload = `import { register } from "node:module";
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hooks)}`)});`;

/** The own modules that a command loads, by their path, and the packages besides. */
function modulesOf(
  args: readonly string[],
): Promise<{ readonly own: string[]; readonly packages: Set<string> }> {
  return new Promise((done, failed) => {
    const program = [
      `--import=data:text/javascript,${encodeURIComponent(preload)}`,
      join(dist, "server/cli/main.js"),
    ];
    execFile(process.execPath, [...program, ...args], (error, _stdout, stderr) => {
      if (error !== null) {
        failed(new Error(stderr));
        return;
      }
      const urls = [...stderr.matchAll(/^loads (file:.*)$/gm)].map(([, url]) => fileURLToPath(url ?? ""));
      done({
        own: urls.filter((path) => path.startsWith(dist)).map((path) => path.slice(dist.length + 1)),
        packages: new Set(
          urls.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.slice(1, 2) ?? []),
        ),
      });
    });
  });
}

/** What plans, archives, trains, talks to devices or listens; but for names and bounds that others use too. */
const unneeded =
  /^(agent|server\/(storage\/(archive|planner)|learning\/(training|evaluation|progressive)|fleet\/ingest|access\/broker|cli\/demo)|shared\/wire)\//;
const shared = new Set([
  "server/learning/evaluation/reduced-models.js",
  "shared/wire/device-settings.js",
  "shared/wire/limits.js",
  "shared/wire/topics.js",
]);
const maxLocalModules = 400;
const maxRemoteModules = 92;

describe("modules of a command", () => {
  let server: TestServer;
  let home: string;
  before(async () => {
    server = await startTestServer();
    home = await newHomeWithTokens("stemma-loaded-");
    const operations = await openLocalOperations({ home });
    await operations.enroll({ fleet, device: "d", lines: ["pack"] });
    await operations.close();
  });
  after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });

  for (const command of ["model list", "device list"])
    it(`${command}: few of its own, and none that it does not need`, async () => {
      for (const [at, max] of [
        [home, maxLocalModules],
        [server.handle.home, maxRemoteModules],
      ] as const) {
        const { own, packages } = await modulesOf([...command.split(" "), "--fleet", fleet, "--home", at]);
        assert.ok(own.length > 20 && own.length <= max, `${own.length} modules at ${at}`);
        assert.deepEqual(
          own.filter((path) => unneeded.test(path) && !shared.has(path)),
          [],
        );
        for (const name of ["fastify", "aedes", "mqtt", "prom-client", "pino", "protobufjs"])
          assert.ok(!packages.has(name), name);
      }
    });

  it("the help of the program: the names of all commands, and none of their modules", async () => {
    const { own } = await modulesOf(["--help"]);
    assert.ok(own.length <= 25, `${own.length} modules`);
    assert.ok(!own.some((path) => path.includes("/commands/")));
  });
});
