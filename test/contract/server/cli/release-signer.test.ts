// The signing program of `stemma release sign --signer` keeps the contract of a device's key; both speak alike.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { signerOf } from "../../../../server/cli/release-signer.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { keyOfSeed } from "../../../../shared/trust/keys.js";
import { signingProgramText } from "../../../helpers/signing-program.js";
import { deviceKeyContract } from "../../agent/identity/device-key-contract.js";

const seed = "3d".repeat(32);
const { publicKey } = keyOfSeed(seed);

describe("the signer of release sign", () => {
  let program: string;
  before(async () => {
    program = join(await mkdtemp(join(tmpdir(), "stemma-signer-")), "sign.mjs");
    await writeFile(program, signingProgramText(seed));
  });
  after(() => rm(join(program, ".."), { recursive: true, force: true }));

  const signerWith = (signer: string): ReturnType<typeof signerOf> =>
    signerOf(nodeFiles(), { signer, publicKey });

  deviceKeyContract(async () => ({ key: await signerWith(`"${process.execPath}" "${program}"`), publicKey }));

  it("refuses a program that is missing, fails, or prints something else", async () => {
    for (const command of ["/nowhere/at/all", "exit 3", "echo hello"]) {
      const signer = await signerWith(command);
      assert.throws(() => signer.sign(Buffer.from("bytes")), { code: "SIGNER_FAILED" }, command);
    }
  });
});
