/** Servers by name: which one a command talks to, with which token. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { runStemmaWith } from "../../../helpers/run-stemma-here.js";
import { startTestServer, testFleet, type TestServer } from "../../../helpers/test-server.js";

describe("contexts", () => {
  let folder: string;
  let server: TestServer;
  const run = async (
    args: readonly string[],
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ readonly status: number; readonly text: string }> => {
    const none = { STEMMA_HOME: undefined, STEMMA_FLEET: undefined, STEMMA_TOKEN: undefined };
    const own = { HOME: folder, XDG_CONFIG_HOME: join(folder, "config") };
    const { status, stdout, stderr } = await runStemmaWith(args, { ...none, ...own, ...more });
    return { status, text: stdout + stderr };
  };
  const good = async (args: readonly string[], more?: Readonly<Record<string, string>>): Promise<string> => {
    const { status, text } = await run(args, more);
    assert.equal(status, 0, text);
    return text;
  };
  const file = (): string => join(folder, "config/stemma/contexts.json");

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-contexts-"));
    server = await startTestServer();
    await server.enroll("van-7");
    await writeFile(join(folder, "token"), `${await readFile(join(server.home, "http-token"), "utf8")}\n`);
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("name a server with its token and fleet; the first is used from then on", async () => {
    const at = ["--at", server.handle.httpUrl, "--for", testFleet, "--token-file", join(folder, "token")];
    assert.match(await good(["context", "add", "test", ...at]), /commands that name no server use it/);
    assert.equal((await stat(file())).mode & 0o077, 0);
    assert.match(await good(["device", "list"]), /van-7/);
    const list = await good(["context", "list"]);
    assert.match(list, /^\*\s+test\s.*yes$/m);
    assert.ok(!list.includes((await readFile(join(folder, "token"), "utf8")).trim()));
  });

  it("give way to a home or server that is named, and to --none", async () => {
    const home = join(folder, "home");
    const isLocal = /There is no home of Stemma in /;
    assert.match((await run(["device", "list", "--home", home])).text, isLocal);
    assert.match((await run(["device", "list"], { STEMMA_HOME: home })).text, isLocal);
    assert.match(await good(["device", "list", "--context", "test"], { STEMMA_HOME: home }), /van-7/);
    const both = await run(["device", "list", "--context", "test", "--home", home]);
    assert.deepEqual([both.status, both.text.includes("USAGE")], [2, true]);
    await good(["context", "use", "--none"]);
    assert.match((await run(["device", "list"])).text, isLocal);
    assert.match(await good(["device", "list"], { STEMMA_CONTEXT: "test" }), /van-7/);
  });

  it("keep a token of the environment from another context's server", async () => {
    await good(["context", "add", "other", "--at", server.handle.httpUrl], { STEMMA_TOKEN: "w".repeat(32) });
    const { status, text } = await run(["device", "list", "--context", "other"]);
    assert.ok(status !== 0 && !text.includes("van-7"), text);
    // The right token in the environment does not replace the wrong one of the context, nor the other way round.
    const right = (await readFile(join(folder, "token"), "utf8")).trim();
    assert.notEqual((await run(["device", "list", "--context", "other"], { STEMMA_TOKEN: right })).status, 0);
    assert.match(
      await good(["device", "list", "--context", "test"], { STEMMA_TOKEN: "wrong-token" }),
      /van-7/,
    );
  });

  it("refuse what is no address, no token, no name, and a file that was changed", async () => {
    for (const args of [
      ["add", "x", "--at", "ftp://a"],
      ["add", "../x", "--at", "https://a"],
      ["add", "x", "--at", "https://a", "--token-file", file()],
      ["use"],
    ])
      assert.equal((await run(["context", ...args])).status, 2, args.join(" "));
    for (const args of [
      ["use", "nobody"],
      ["rm", "nobody"],
      ["use", "__proto__"],
    ])
      assert.equal((await run(["context", ...args])).status, 3, args.join(" "));
    await good(["context", "rm", "other"]);
    assert.match(
      await good(["context", "add", "far", "--at", "http://far.example"], { STEMMA_TOKEN: "secret-token" }),
      /is not encrypted/,
    );
    await writeFile(file(), '{"format":1,"contexts":{"a":{"server":7}}}');
    assert.match((await run(["device", "list"])).text, /CONFIG_INVALID/);
  });
});
