/** Checkpoints on the command line: printed, cosigned, brought back, kept, and with another name after a restore. */
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { verifyConsistency } from "../../../../shared/journal/merkle-log.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { parseCheckpoint } from "../../../../shared/trust/checkpoint.js";
import { parseVerifierKey } from "../../../../shared/trust/signed-note.js";
import { isSignatureValid } from "../../../../shared/trust/keys.js";
import { withTokens } from "../../../helpers/home-with-tokens.js";
import { runStemmaHere } from "../../../helpers/run-stemma-here.js";
import { testWitness } from "../../../helpers/test-witness.js";

interface Shown {
  readonly origin: string;
  readonly verifierKey: string;
  readonly text: string;
  readonly cosigners: readonly string[];
}

describe("checkpoints on the command line", () => {
  let folder: string;
  const at = (name: string): string => join(folder, name);
  const run = async (home: string, words: readonly string[], status = 0): Promise<string> => {
    const ended = await runStemmaHere([...words], { home: at(home) });
    assert.equal(ended.status, status, ended.stderr + ended.stdout);
    return status === 0 ? ended.stdout : ended.stderr;
  };
  const journal = (words: readonly string[], status = 0): Promise<string> =>
    run("home", ["journal", ...words], status);
  const enroll = (device: string): Promise<string> =>
    run("home", ["device", "enroll", device, "--token", "--line", "l", "--file", at(`${device}.json`)]);
  const shown = async (): Promise<Shown> => JSON.parse(await journal(["checkpoint", "-o", "json"])) as Shown;
  const cosign = async (text: string, status = 0): Promise<string> => {
    await writeFile(at("note"), text);
    return await journal(["cosign", at("note")], status);
  };
  const w1 = testWitness("witness.example/w1");
  const w2 = testWitness("witness.example/w2");

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-checkpoint-"));
    await run("home", ["device", "enroll", "v0", "--line", "l", "--file", at("v0.json")]);
    await withTokens(at("home"));
    await enroll("v1");
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("prints what a witness reads: a note that the key which it prints signed", async () => {
    const text = await journal(["checkpoint"]);
    const { checkpoint, note } = parseCheckpoint(text);
    const key = parseVerifierKey((await journal(["checkpoint", "--key"])).trim());
    assert.equal(key?.name, checkpoint.origin);
    assert.match(checkpoint.origin, /^stemma\/[0-9a-f]{64}\/local$/);
    const [own] = note.signatures;
    assert.equal(own?.keyId, key.keyId);
    assert.ok(isSignatureValid(key.publicKey, Buffer.from(note.text), own.bytes));
  });

  it("writes the request to a witness that has seen less, with the proof", async () => {
    const before = parseCheckpoint(await journal(["checkpoint"])).checkpoint;
    assert.match(await journal(["checkpoint", "--from", "0"]), /^old 0\n\nstemma\//);
    await enroll("v2");
    const request = await journal(["checkpoint", "--from", String(before.length)]);
    const [old = "", ...rest] = request.slice(0, request.indexOf("\n\n")).split("\n");
    assert.equal(old, `old ${before.length}`);
    const { checkpoint } = parseCheckpoint(request.slice(request.indexOf("\n\n") + 2));
    const proof = rest.map((line) => Buffer.from(line, "base64").toString("hex") as Hash);
    assert.ok(verifyConsistency({ from: before, to: checkpoint, proof }));
    assert.match(await journal(["checkpoint", "--from", "1000"], 3), /NOT_FOUND/);
  });

  it("keeps what witnesses answer, one line of each, for exactly that state", async () => {
    const { text } = await shown();
    assert.match(await cosign(text + w1.cosign(text, 1)), /witness\.example\/w1/);
    await cosign(text + w2.cosign(text, 2) + w1.cosign(text, 3) + w1.cosign(text, 4));
    const after = await shown();
    assert.deepEqual([...after.cosigners].sort(), [w1.name, w2.name]);
    const times = parseCheckpoint(after.text)
      .note.signatures.slice(1)
      .map(({ bytes }) => Number(Buffer.from(bytes).readBigUInt64BE(0)));
    assert.deepEqual(times.sort(), [2, 4]);
    await enroll("v3");
    assert.deepEqual((await shown()).cosigners, []);
  });

  it("refuses what is not of this journal, or has no cosignature", async () => {
    const { text } = await shown();
    assert.match(await cosign(text, 2), /USAGE/);
    assert.match(await cosign("nonsense", 4), /CHECKPOINT_INVALID/);
    const other = text.replace("/local\n", "/vans\n");
    assert.match(await cosign(other + w1.cosign(other, 1), 4), /CHECKPOINT_INVALID/);
    const longer = text.replace(/\n\d+\n/, "\n1000\n");
    assert.match(await cosign(longer + w1.cosign(longer, 1), 4), /never had/);
    assert.match(await journal(["cosign", at("missing")], 3), /FILE_MISSING/);
    assert.match(await journal(["cosign", folder], 2), /FILE_NOT_REGULAR/);
  });

  it("has another name after a restore, and a damaged file of cosignatures counts as none", async () => {
    const { text, origin } = await shown();
    await cosign(text + w1.cosign(text, 1));
    assert.deepEqual((await shown()).cosigners, [w1.name]);
    await cp(at("home"), at("copy"), { recursive: true });
    const kept = join(at("copy"), "fleets/local/checkpoints.json");
    assert.match(await readFile(kept, "utf8"), /stemma-checkpoints/);
    await writeFile(kept, "{");
    const damaged = await run("copy", ["journal", "checkpoint", "-o", "json"]);
    assert.deepEqual((JSON.parse(damaged) as Shown).cosigners, []);
    await run("copy", ["journal", "declare-restore", "--position", "1"]);
    const restored = await run("copy", ["journal", "checkpoint"]);
    assert.match(restored, new RegExp(`^${origin}/restored-[0-9a-f]{16}\n`));
  });
});
