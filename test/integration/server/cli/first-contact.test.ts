/** The first minutes with Stemma: no home yet, no folder of the user's own, a server that is not there. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { callNames } from "../../../../server/interface/api/operation-groups.js";
import {
  beginsHome,
  needsNoHome,
  openLocalOperations,
} from "../../../../server/operations/local-operations.js";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  runAgentHere,
  runStemmaHere,
  runStemmaWith,
  type ProgramResult,
} from "../../../helpers/run-stemma-here.js";
import { runStemmaProcess } from "../../../helpers/run-stemma.js";
import { startTestServer, type TestServer } from "../../../helpers/test-server.js";

const bundledProgram = fileURLToPath(new URL("../../../helpers/bundled-program.mjs", import.meta.url));
let folder: string;
const at = (...names: readonly string[]): string => join(folder, ...names);
const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "stemma-first-"));
});
after(() => rm(folder, { recursive: true, force: true }));

function assertTyped({ status, stderr }: ProgramResult, code: string, step: RegExp): void {
  assert.notEqual(status, 0);
  assert.match(stderr, new RegExp(`^stemma: [^\n]*\\[${code}\\]\n$`));
  assert.match(stderr, step);
}

describe("a home that is not there", () => {
  type AnyOperation = (input: object) => Promise<unknown>;
  const others = ["recover", "fetchDataset", "planStorage", "applyStorage"] as const;
  for (const name of [...callNames, ...others].filter(
    (each) => !beginsHome.has(each) && !needsNoHome.has(each),
  ))
    it(`is not made by the operation ${name}`, async () => {
      const home = at("missing");
      const operations = await openLocalOperations({ home });
      const isRefused = (error: unknown): boolean =>
        isStemmaError(error, "NOT_FOUND") && error.message.includes("begin one");
      await assert.rejects((operations[name] as AnyOperation)({ fleet: "local" }), isRefused);
      await operations.close();
      assert.equal(await isThere(home), false);
    });

  for (const words of [
    "model list",
    "device list",
    "storage check",
    "journal salvage",
    "fleet watch",
    "doctor",
  ])
    it(`is named by ${words}, which leaves nothing`, async () => {
      const ended = await runStemmaHere(words.split(" "), { home: at("missing") });
      if (words !== "doctor") assertTyped(ended, "NOT_FOUND", /Name another with --home.* begin one/);
      assert.equal(await isThere(at("missing")), false);
    });

  it("is not made by a dry run", async () => {
    const operations = await openLocalOperations({ home: at("missing") });
    const stream = { byteLength: 0, chunks: (async function* () {})() };
    const importing = operations.import(stream, { fleet: "local", name: "m", dryRun: true });
    await assert.rejects(importing, { code: "NOT_FOUND" });
    assert.equal(await isThere(at("missing")), false);
  });

  it("is begun by what stores something first", async () => {
    const home = at("begun");
    const enroll = ["device", "enroll", "v", "--line", "l", "--file", at("v.json")];
    assert.equal((await runStemmaHere(enroll, { home })).status, 0);
    assert.equal((await runStemmaHere(["device", "list"], { home })).status, 0);
  });
});

describe("an agent before its enrolment", () => {
  for (const words of ["run", "renew"])
    it(`says how it is enrolled: ${words}`, async () => {
      const ended = await runAgentHere([words, "--home", at("agent")]);
      assertTyped(ended, "FILE_MISSING", /stemma device enroll.*stemma agent enroll INVITATION/);
      assert.equal(await isThere(at("agent")), false);
    });

  for (const [name, words] of [
    ["after", ["agent", "status", "--home", "/nobody/here"]],
    ["before", ["--home", "/nobody/here", "agent", "status"]],
  ] as const)
    it(`is in the home that is named ${name} its command, also through the server's program`, async () => {
      assertTyped(await runStemmaProcess(words, {}), "AGENT_UNREACHABLE", /the home \/nobody\/here\./);
    });

  it("says that the server of its invitation is not there, and enrols once it is", async () => {
    const server = await startTestServer({ tls: undefined });
    try {
      const options = ["--line", "l", "--fleet", "test-fleet", "--file", at("car.json")];
      await runStemmaHere(["device", "enroll", "car", ...options], { home: server.home });
      const { http } = JSON.parse(await readFile(at("car.json"), "utf8")) as { http: string };
      await server.handle.close();
      const enroll = ["enroll", at("car.json"), "--home", at("car")];
      const step =
        /nothing listens there \(ECONNREFUSED\)\. .*wait until it has started.* is the address in the invitation, which is still good: run the same command again.*--public-url/;
      assertTyped(await runAgentHere(enroll), "SERVER_UNREACHABLE", step);
      await server.restart({ tls: undefined, httpPort: Number(new URL(http).port) });
      assert.equal((await runAgentHere(enroll)).status, 0);
    } finally {
      await server.remove();
    }
  });
});

describe("the first minutes of a device", () => {
  let server: TestServer;
  before(async () => {
    server = await startTestServer({ tls: undefined });
  });
  after(() => server.remove());
  const invite = async (device: string): Promise<string> => {
    const file = at(`${device}.json`);
    const options = ["--line", "l", "--fleet", "test-fleet", "--file", file];
    await runStemmaHere(["device", "enroll", device, ...options], { home: server.home });
    return file;
  };

  for (const [then, says] of [
    ["1970-01-02", /clock says 1970-01-02T.* and its server's 20\d\d-.*set the clock \(NTP\)/],
    ["2071-01-02", /clock says 2071-01-02T.* and its server's 20\d\d-.*set the clock \(NTP\)/],
  ] as const)
    it(`say that its clock is wrong, and enrol it all the same: ${then}`, async () => {
      const file = await invite(`clock-${then}`);
      const ended = await runStemmaProcess(["agent", "enroll", file, "--home", at(then)], {
        NODE_OPTIONS: `--import=${clockAt(then)}`,
      });
      assert.equal(ended.status, 0, ended.stderr);
      assert.match(ended.stderr, says);
    });

  it("say nothing of a clock that is right", async () => {
    const ended = await runAgentHere(["enroll", await invite("on-time"), "--home", at("on-time")]);
    assert.deepEqual([ended.status, ended.stderr], [0, ""]);
  });

  it("say that another server is at the address", async () => {
    const file = await invite("stray");
    const other = await startTestServer({ tls: undefined });
    try {
      const invitation = JSON.parse(await readFile(file, "utf8")) as { http: string };
      const port = Number(new URL(invitation.http).port);
      await server.handle.close();
      await other.restart({ tls: undefined, httpPort: port });
      assertTyped(
        await runAgentHere(["enroll", file, "--home", at("stray")]),
        "CERTIFICATE_REFUSED",
        /is not the server that invited stray: .*Nothing was sent to it.*invite stray again/,
      );
      await other.handle.close();
      await server.restart({ tls: undefined, httpPort: port });
    } finally {
      await other.remove();
    }
  });

  it("say which home is another device's, and how an invitation that was used is replaced", async () => {
    const [first, second] = [await invite("first"), await invite("second")];
    assert.equal((await runAgentHere(["enroll", first, "--home", at("shared")])).status, 0);
    assertTyped(
      await runAgentHere(["enroll", second, "--home", at("shared")]),
      "ENROLMENT_INVALID",
      /is the enrolment of test-fleet\/first, .* name another folder with --home/,
    );
    assertTyped(
      await runAgentHere(["enroll", first, "--home", at("again")]),
      "CERTIFICATE_REFUSED",
      /was used before.* Invite it again with `stemma device enroll first`\./,
    );
  });

  it("name the user that may not write there", async () => {
    const file = await invite("locked-out");
    await chmod(folder, 0o755);
    await chmod(file, 0o644);
    await mkdir(at("closed"), { mode: 0o555 });
    // Root may write everywhere.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
    const ended = await new Promise<ProgramResult>((resolve) => {
      const args = ["agent", "enroll", file, "--home", at("closed", "home")];
      execFile(process.execPath, [bundledProgram, ...args], user, (error, stdout, stderr) => {
        resolve({ status: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
    assertTyped(ended, "FILE_FAILED", /\(EACCES\).* runs as .*user id \d+.*chown -R\).*--home/);
  });
});

/** A module that sets the clock of a process, as a URL. */
const clockAt = (then: string): string =>
  `data:text/javascript,${encodeURIComponent(
    `const ahead = Date.parse("${then}") - Date.now(), now = Date.now; Date.now = () => now() + ahead;`,
  )}`;

describe("a user without a folder", () => {
  const environment = {
    HOME: "",
    STEMMA_HOME: undefined,
    STEMMA_AGENT_HOME: undefined,
    XDG_CONFIG_HOME: undefined,
  };
  it("is asked to name a home", async () => {
    assertTyped(
      await runStemmaWith(["model", "list"], environment),
      "USAGE",
      /--home DIR, or in STEMMA_HOME/,
    );
    const context = ["context", "add", "x", "--at", "http://127.0.0.1:1"];
    assertTyped(await runStemmaWith(context, environment), "USAGE", /XDG_CONFIG_HOME/);
  });

  it("needs none for a server, or with a home that is named", async () => {
    const remote = await runStemmaWith(["model", "list", "--server", "http://127.0.0.1:1"], environment);
    assertTyped(remote, "SERVER_UNREACHABLE", /nothing listens/);
    const local = await runStemmaWith(["model", "list"], { ...environment, STEMMA_HOME: at("missing") });
    assertTyped(local, "NOT_FOUND", /begin one/);
  });
});
