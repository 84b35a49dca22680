/** `publish`, `search` and `pull` on the command line, over HTTPS with a named hub, as a modeller types them. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { runStemmaWith, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { startTestServer, testFleet, type TestServer } from "../../../helpers/test-server.js";
import { fileOf } from "../interface/http/http-requests.js";

const cwd = process.cwd();

describe("a hub on the command line", () => {
  let folder: string;
  let hub: TestServer;
  const stemma = (repository: string, ...args: readonly string[]): Promise<ProgramResult> => {
    process.chdir(join(folder, repository));
    return runStemmaWith(args, {
      ...{ STEMMA_HOME: undefined, STEMMA_FLEET: undefined, STEMMA_TOKEN: undefined },
      XDG_CONFIG_HOME: join(folder, "config"),
    });
  };
  const good = async (repository: string, ...args: readonly string[]): Promise<ProgramResult> => {
    const result = await stemma(repository, ...args);
    assert.equal(result.status, 0, `${args.join(" ")}\n${result.stdout}${result.stderr}`);
    return result;
  };
  const refused = async (code: string, ...args: readonly string[]): Promise<string> => {
    const { status, stderr } = await stemma("b", ...args);
    assert.notEqual(status, 0, args.join(" "));
    assert.match(stderr, new RegExp(`\\[${code}\\]\\n$`));
    return stderr;
  };

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), "stemma-hub-cli-")));
    hub = await startTestServer({ isHub: true, tls: "own" });
    for (const name of ["a", "b"]) {
      await mkdir(join(folder, name));
      await good(name, "init");
    }
    for (const seed of [1, 2]) {
      await writeFile(
        join(folder, "a", "m.safetensors"),
        await fileOf({ w: new Uint8Array(5000).fill(seed) }),
      );
      await good("a", "add", "m.safetensors");
      await good("a", "commit", "-m", "one", "--name", "m");
    }
    const made = await good("a", "token", "add", "ann", "--role", "publisher", "--home", hub.home);
    assert.match(made.stdout, /^stemma_http_\S+\n$/, "the token alone");
    assert.match(made.stderr, /role is publisher/);
    await writeFile(join(folder, "token"), made.stdout);
    await good(
      ...(["a", "context", "add", "acme", "--at", hub.handle.httpUrl, "--for", testFleet] as const),
      ...["--ca", join(hub.home, "authority.pem"), "--token-file", join(folder, "token")],
    );
  });
  after(async () => {
    process.chdir(cwd);
    await hub.remove();
    await rm(folder, { recursive: true, force: true });
  });

  it("takes a model with its parents, finds it, and gives it elsewhere, once", async () => {
    const publish = ["publish", "m:2", "--to", "acme", "--license", "Apache-2.0", "--task", "tests"];
    assert.match(
      (await good("a", ...publish)).stdout,
      /^published 2 versions: \d+ objects, [^]* m:1 [^]* m:2 /,
    );
    assert.match(
      (await good("a", ...publish)).stdout,
      /^published 0 versions: 0 objects, 0 B; 2 versions were there/,
    );
    assert.match((await good("b", "search", "TEST", "--from", "acme")).stdout, /m:2 .* tests +Apache-2.0 /);
    assert.match(
      (await good("b", "search", "--task", "x", "--from", "acme")).stdout,
      /^no published model matches/,
    );
    assert.equal((await good("b", "search", "--from", "acme", "-o", "name")).stdout, "m:2\n");
    assert.match((await good("b", "pull", "m:2", "--from", "acme")).stdout, /^pulled 2 versions/);
    assert.match((await good("b", "pull", "m", "--from", "acme")).stdout, /^pulled 0 versions/);
    for (const name of ["a", "b"]) {
      const home = ["--home", join(folder, name, ".stemma"), "--fleet", "local"];
      await good(name, "model", "recover", "m:2", "--file", "back.safetensors", ...home);
    }
    assert.deepEqual(
      await readFile(join(folder, "b", "back.safetensors")),
      await readFile(join(folder, "a", "back.safetensors")),
    );
    assert.match((await good("b", "desc", "m:2")).stdout, /licence +Apache-2.0, as stated/);
    const only = await good("b", "publish", "m:2", "--depth", "0", "--file", "m.bundle");
    assert.match(only.stderr, /left out: 1 parent \(not asked for\)/);
  });

  it("says what to do next where something is not there or not allowed", async () => {
    const unknown = await refused("MODEL_NOT_FOUND", "pull", "n", "--from", "acme");
    assert.match(
      unknown,
      new RegExp(`The fleet ${testFleet} of the hub has no .*\`stemma search --from acme\``),
    );
    assert.match(await refused("MODEL_NOT_FOUND", "publish", "n", "--to", "acme"), /`stemma list`/);
    assert.match(await refused("NOT_FOUND", "pull", "m", "--from", "nobody"), /context add nobody --at/);
    assert.match(await refused("USAGE", "pull", "m", "--from", hub.handle.httpUrl), /--namespace/);
    await refused("USAGE", "pull");
    await refused("USAGE", "pull", "m", "--file", "m.bundle");
    await refused("USAGE", "publish", "m", "--file", "x.bundle", "--license", "MIT");
    assert.match(await refused("USAGE", "publish", "m", "--to", "acme", "--license", "a b c"), /SPDX/);
    await refused("NOT_ALLOWED", "pull", "m:2", "--from", "acme", "--with-data");
    await good("b", "context", "use", "--none");
    assert.match(await refused("USAGE", "search"), /--from/);
    assert.match(await refused("USAGE", "publish", "m"), /--to/);
  });
});
