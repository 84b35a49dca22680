/** Proofs of the journal on the command line: heads kept outside, proofs of facts, an exported journal. */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { tinyImport } from "../../../helpers/agent-fixtures.js";
import { withTokens } from "../../../helpers/home-with-tokens.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";

interface Head {
  readonly length: number;
  readonly publicKey: string;
}

describe("the journal on the command line", () => {
  let folder: string;
  let key: string;
  const at = (name: string): string => join(folder, name);
  /** @returns what it printed; the error's text where its exit status is the expected one */
  const run = async (home: string, args: readonly string[], status = 0): Promise<string> => {
    const ended = await runStemmaHere([...args], { home: at(home) });
    assert.equal(ended.status, status, ended.stderr + ended.stdout);
    return status === 0 ? ended.stdout : ended.stderr;
  };
  const journal = (args: readonly string[], status = 0): Promise<string> =>
    run("home", ["journal", ...args], status);

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-journal-"));
    const { bytes, architecture } = await tinyImport("1");
    await writeFile(at("tiny.safetensors"), bytes);
    await writeFile(at("model.json"), architecture);
    await run("home", [
      "model",
      "import",
      at("tiny.safetensors"),
      "--name",
      "tiny",
      "--arch",
      at("model.json"),
    ]);
    await run("home", ["device", "enroll", "v2", "--line", "soh", "--file", at("v2.invitation.json")]);
    await withTokens(at("home"));
    await run("home", ["device", "enroll", "v1", "--token", "--line", "soh", "--file", at("v1.json")]);
    // A separator that ends lines in some readers of text.
    await run("home", ["model", "hold", "tiny", "--because", "a\u2028b"]);
    const head = JSON.parse(await journal(["head", "--witness", at("heads"), "-o", "json"])) as Head;
    key = head.publicKey;
    await cp(at("home"), at("copy"), { recursive: true });
    await run("home", ["model", "tag", "tiny", "first"]);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("keeps heads, each proven to come after the one before", async () => {
    assert.match(await journal(["head", "--witness", at("heads")]), /is its start/);
    const lines = (await readFile(at("heads"), "utf8")).trimEnd().split("\n");
    assert.equal(lines.length, 2);
    assert.match(await journal(["verify", "--witness", at("heads")]), /2 kept heads/);
    for (const file of ["v1.json", "v2.invitation.json"])
      assert.match(await journal(["verify", "--enrolment", at(file)]), new RegExp(key));
    await journal(["verify"], 2);
    const other = "0".repeat(64);
    assert.match(await journal(["verify", "--key", other], 4), /HEAD_SIGNATURE_INVALID/);
  });

  it("notices a server that was put back, or whose history was rewritten", async () => {
    // The copy has the server's key, and fewer facts than the last kept head.
    const back = ["journal", "verify", "--witness", at("heads")];
    assert.match(await run("copy", back, 4), /JOURNAL_DIFFERS/);
    assert.match(await run("copy", ["journal", "head", "--witness", at("heads")], 4), /--after-restore/);
    await run("copy", ["model", "tag", "tiny", "other"]);
    await run("copy", ["model", "tag", "tiny", "another"]);
    assert.match(await run("copy", back, 4), /JOURNAL_DIFFERS/);
    assert.match(await run("copy", ["journal", "head", "--witness", at("heads")], 4), /JOURNAL_DIFFERS/);
    // Who knows why begins anew; heads from before are not compared any more.
    await cp(at("heads"), at("heads-of-copy"));
    const anew = ["journal", "head", "--witness", at("heads-of-copy"), "--after-restore"];
    await run("copy", anew);
    await run("copy", ["journal", "verify", "--witness", at("heads-of-copy")]);
  });

  it("proves a fact to whoever has the server's key, or a kept head", async () => {
    await journal(["prove", "tiny", "--file", at("proof"), "--witness", at("heads")]);
    assert.match(
      await journal(["verify", "--proof", at("proof"), "--witness", at("heads")]),
      /"recorded".*"tiny"/,
    );
    assert.match(await journal(["verify", "--proof", at("proof"), "--key", key]), /which the server signed/);
    await journal(["verify", "--proof", at("proof")], 2);
    const text = await readFile(at("proof"), "utf8");
    await writeFile(at("lie"), text.replace('\\"name\\":\\"tiny\\"', '\\"name\\":\\"tiñy\\"'));
    assert.match(await journal(["verify", "--proof", at("lie"), "--key", key], 4), /JOURNAL_DIFFERS/);
    await writeFile(at("lie"), text.replace('"position": ', '"position": 1'));
    assert.match(await journal(["verify", "--proof", at("lie"), "--key", key], 4), /JOURNAL_DIFFERS/);
    // An enrolment has the hash of a token.
    assert.match(await journal(["prove", "1"]), /an enrolment/);
    assert.match(await journal(["prove", "999"], 3), /no fact 999/);
    assert.match(await journal(["prove", "nobody"], 3), /MODEL_NOT_FOUND/);
  });

  it("exports the journal, and checks it without the server", async () => {
    await journal(["export", "--file", at("log")]);
    await journal(["export", "--file", at("log")], 2);
    const verify = ["journal", "verify", "--log", at("log"), "--witness", at("heads")];
    assert.match(await run("nowhere", verify), /agree with their signed head and with 2 kept heads/);
    const text = await readFile(at("log"), "utf8");
    const lines = text.split("\n");
    for (const changed of [
      text.replace('"tag":"first"', '"tag":"worse"'),
      lines.filter((_, index) => index !== 2).join("\n"),
      `${text}{}\n`,
      [lines[0], lines[2], lines[1], ...lines.slice(3)].join("\n"),
    ]) {
      await writeFile(at("log"), changed);
      assert.match(await run("nowhere", verify, 4), /JOURNAL_DIFFERS/);
    }
    await writeFile(at("log"), "");
    assert.match(await run("nowhere", verify, 2), /is not an exported journal/);
  });

  it("refuses a file of heads that was changed, and goes on after a torn line", async () => {
    const text = await readFile(at("heads"), "utf8");
    await writeFile(at("torn"), `${text}{"kind":"stem`);
    await journal(["head", "--witness", at("torn")]);
    const [first] = (await readFile(at("torn"), "utf8")).split("\n");
    assert.equal(first, text.split("\n")[0]);
    await journal(["verify", "--witness", at("torn")]);
    await writeFile(at("torn"), text.replace(/"length":(\d+)/, '"length":1$1'));
    assert.match(await journal(["head", "--witness", at("torn")], 4), /HEAD_SIGNATURE_INVALID/);
    await writeFile(at("torn"), `heads\n${text}`);
    assert.match(await journal(["head", "--witness", at("torn")], 4), /JOURNAL_DIFFERS/);
    await journal(["head", "--fleet", "other", "--witness", at("heads")], 4);
  });
});
