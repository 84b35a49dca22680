/** Invitations as a person types them: many at once, again, and certificates by files that are carried. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parseManifest } from "../../../../server/cli/invite-many.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { loadEnrolment } from "../../../../shared/trust/enrolment.js";
import { runAgentHere, runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer, type TestServer } from "../../../helpers/test-server.js";

const manifest = "device,lines,profile\ncar-1,soh cam,generic\n# a comment\n\ncar-2,soh,\r\ncar-3,,\n";

/** The agent has a program of its own, and a home of its own. */
function runHereOrAgent(args: readonly string[], home: string, folder: string): Promise<ProgramResult> {
  return args[0] === "agent"
    ? runAgentHere([...args.slice(1), "--home", join(folder, "agent")])
    : runStemmaHere(args, { home });
}

describe("invitations on the command line", () => {
  let server: TestServer;
  let folder: string;
  const run = (...args: string[]): Promise<ProgramResult> => runHereOrAgent(args, server.home, folder);
  /** The counts that the command answers. */
  async function inviteAll(): Promise<unknown> {
    const to = join(folder, "invitations");
    const args = ["--manifest", join(folder, "cars.csv"), "--to", to, "--line", "soh", "-o", "json"];
    const { status, stdout, stderr } = await run("device", "enroll", ...args);
    assert.equal(status, 0, stderr);
    const { invited, there, enrolled, refused } = JSON.parse(stdout) as Record<string, number>;
    return { invited, there, enrolled, refused };
  }
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-invitations-"));
    server = await startTestServer({ tls: undefined });
    await writeFile(join(folder, "cars.csv"), manifest);
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("are written for a whole manifest, and again only where one is missing or damaged", async () => {
    assert.deepEqual(await inviteAll(), { invited: 3, there: 0, enrolled: 0, refused: 0 });
    const names = ["car-1", "car-2", "car-3"].map((name) => `${name}.invitation.json`);
    assert.deepEqual((await readdir(join(folder, "invitations"))).sort(), names);
    assert.deepEqual(await inviteAll(), { invited: 0, there: 3, enrolled: 0, refused: 0 });
    await rm(join(folder, "invitations", "car-1.invitation.json"));
    await writeFile(join(folder, "invitations", "car-2.invitation.json"), "{ torn");
    assert.deepEqual(await inviteAll(), { invited: 2, there: 1, enrolled: 0, refused: 0 });
  });

  it("become a certificate by files that are carried, which is given once", async () => {
    const path = (name: string): string => join(folder, name);
    const invitation = path("invitations/car-1.invitation.json");
    const enrol = (enrolment: string, ...more: string[]): Promise<ProgramResult> =>
      run("agent", "enroll", invitation, "--enrolment", path(enrolment), ...more);
    assert.equal((await enrol("car-1.json", "--request", path("request.json"))).status, 0);
    assert.equal(
      (await run("device", "sign", path("request.json"), "--file", path("answer.json"))).status,
      0,
    );
    // A Windows editor put a byte order mark before it.
    await writeFile(path("request.json"), `\ufeff${await readFile(path("request.json"), "utf8")}`);
    // An answer that was lost is given again, to the same keys.
    assert.equal((await run("device", "sign", path("request.json"), "--file", path("again.json"))).status, 0);
    const { status, stderr } = await enrol("car-1.json", "--response", path("answer.json"));
    assert.equal(status, 0, stderr);
    const enrolment = await loadEnrolment(nodeFiles(), path("car-1.json"));
    assert.deepEqual([enrolment.device, enrolment.lines], ["car-1", ["soh", "cam"]]);
    assert.ok(enrolment.identity !== undefined && enrolment.token === undefined);
    await enrol("other.json", "--request", path("other-request.json"));
    const refused = await run(
      "device",
      "sign",
      path("other-request.json"),
      "--file",
      path("other-answer.json"),
    );
    assert.match(refused.stderr, /CERTIFICATE_REFUSED/);
    assert.deepEqual(await inviteAll(), { invited: 0, there: 2, enrolled: 1, refused: 0 });
  });
});

describe("the invitation of a batch on the command line", () => {
  it("enrols devices under names of theirs, which wait until they are accepted", async (t) => {
    const server = await startTestServer({ tls: "own" });
    const folder = await mkdtemp(join(tmpdir(), "stemma-batch-"));
    t.after(async () => {
      await server.remove();
      await rm(folder, { recursive: true, force: true });
    });
    const path = (name: string): string => join(folder, name);
    const run = async (status: number, ...args: string[]): Promise<string> => {
      const result = await runHereOrAgent(args, server.home, folder);
      assert.equal(result.status, status, `${result.stderr}${result.stdout}`);
      return result.stdout + result.stderr;
    };
    await writeFile(path("names"), "# of the depot\nvan-1\n\nvan-2\n");
    const file = path("vans.batch.json");
    const create = (...more: string[]): Promise<string> =>
      run(
        more.length === 0 ? 0 : 2,
        "device",
        "batch",
        "create",
        "vans",
        "--count",
        "2",
        "--line",
        "soh",
        ...[...["--names", path("names"), "--label", "depot=lyon", "--hold", "--file", file], ...more],
      );
    assert.match(await create(), /2 devices may enrol with/);
    await create("--label", "depot-");
    const enrol = (status: number, name: string): Promise<string> =>
      run(status, "agent", "enroll", file, "--name", name, "--enrolment", path(`${name}.json`));
    assert.match(await enrol(0, "van-1"), /van-1 has its certificate/);
    assert.match(await enrol(1, "van-3"), /CERTIFICATE_REFUSED/);
    // The other way, without HTTPS between device and server.
    const [request, answer] = [path("request"), path("answer")];
    const carried = ["agent", "enroll", file, "--name", "van-2", "--enrolment", path("van-2.json")];
    await run(0, ...carried, "--request", request);
    await run(0, "device", "sign", request, "--file", answer);
    await run(0, ...carried, "--response", answer);
    assert.equal((await loadEnrolment(nodeFiles(), path("van-2.json"))).generation, 1);
    assert.match(await run(0, "device", "batch", "show", "vans"), /wait to be accepted: van-1, van-2/);
    assert.match(await run(0, "device", "show", "van-1"), /with the batch vans/);
    assert.match(await run(0, "device", "accept", "--batch", "vans"), /accepted van-1, van-2/);
    assert.match(await run(0, "device", "list"), /van-1/);
    await run(0, "device", "batch", "revoke", "vans");
    assert.match(await run(0, "device", "batch", "list"), /vans +revoked +2 of 2/);
    await run(3, "device", "batch", "show", "buses");
    await run(2, "device", "accept");
  });
});

describe("a manifest of devices", () => {
  it("is CSV with named columns, or JSON lines", () => {
    const expected = [
      { device: "car-1", lines: ["soh", "cam"], profile: "generic" },
      { device: "car-2", lines: ["soh"] },
      { device: "car-3" },
    ];
    assert.deepEqual(parseManifest(manifest, "cars.csv"), expected);
    const json = expected.map((row) => JSON.stringify(row)).join("\n");
    assert.deepEqual(parseManifest(json, "cars.jsonl"), expected);
  });

  it("is refused as a whole where a row is wrong, with its line", () => {
    for (const [text, line] of [
      ["name,lines\ncar,soh\n", 1],
      ["device\ncar\ncar\n", 3],
      ["device\ncar\n../../etc/passwd\n", 3],
      ['{"device":"car"}\n{"device":\n', 2],
      ['{"device":"car"}\n{"device":"van","lines":["a b"]}\n', 2],
      ["", 1],
    ] as const)
      assert.throws(() => parseManifest(text, "cars"), {
        code: "USAGE",
        message: new RegExp(`line ${line}:`),
      });
  });
});
