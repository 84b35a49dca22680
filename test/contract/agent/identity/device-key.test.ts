// The adapters of a device's key: a file, and a program of the device's owner, which may do anything.
import assert from "node:assert/strict";
import { chmod, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { deviceKeyOf } from "../../../../agent/identity/device-key.js";
import { openProgramKey } from "../../../../agent/identity/program-key.js";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Clock } from "../../../../shared/ports.js";
import { generateKey, keyOfSeed, type DeviceKey } from "../../../../shared/trust/keys.js";
import { signingProgramText } from "../../../helpers/signing-program.js";
import { deviceKeyContract } from "./device-key-contract.js";

const seed = "5a".repeat(32);
const { publicKey } = keyOfSeed(seed);
const files = nodeFiles();

describe("a device's key in the enrolment file", () => {
  const enrolment = { device: "van-7", deviceSeed: seed, devicePublicKey: publicKey };
  deviceKeyContract(() => Promise.resolve({ key: deviceKeyOf(enrolment, undefined), publicKey }));
});

describe("a device's key that a program has", () => {
  let folder: string;
  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), "stemma-device-key-")));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  async function program(text: string): Promise<string> {
    const path = join(folder, `sign-${Buffer.from(nodeRandom().bytes(6)).toString("hex")}.mjs`);
    await writeFile(path, `#!${process.execPath}\n${text}`);
    await chmod(path, 0o700);
    return path;
  }
  async function open(
    path: string,
    {
      clock = nodeClock(),
      signal = new AbortController().signal,
    }: { clock?: Clock; signal?: AbortSignal } = {},
  ): Promise<DeviceKey> {
    const settings = { exec: [path], publicKey, timeoutSeconds: 30 };
    const owner = process.getuid?.();
    return openProgramKey({ settings, home: folder, files, clock, configFile: undefined, owner, signal });
  }
  async function refusalOf(path: string): Promise<string> {
    const key = await open(path);
    let message = "";
    await assert.rejects(Promise.resolve(key.sign(Buffer.from("bytes"))), (error: unknown) => {
      assert.equal((error as { code?: unknown }).code, "SIGNER_FAILED");
      message = (error as Error).message;
      return true;
    });
    return message;
  }

  deviceKeyContract(async () => ({ key: await open(await program(signingProgramText(seed))), publicKey }));

  it("refuses what is not a signature, a signature of another key, and a program that fails", async () => {
    assert.match(await refusalOf(await program("console.log('hello')")), /not 128 hexadecimal digits/);
    assert.match(await refusalOf(await program("process.stdout.write('a'.repeat(1e6))")), /not 128/);
    const other = signingProgramText("6b".repeat(32));
    assert.match(await refusalOf(await program(other)), /another key or of other bytes/);
    const refusing = "console.error('the PIN is locked'); process.exit(3)";
    assert.match(await refusalOf(await program(refusing)), /status 3; it wrote: the PIN is locked/);
  });

  it("is not opened where the program is missing; says so where it goes later", async () => {
    await assert.rejects(open(join(folder, "missing")), { code: "CONFIG_INVALID" });
    const path = await program(signingProgramText(seed));
    const key = await open(path);
    await rm(path);
    await assert.rejects(Promise.resolve(key.sign(Buffer.from("bytes"))), {
      code: "SIGNER_FAILED",
      message: /does not exist/,
    });
    await assert.rejects(
      open(await program("").then(async (writable) => (await chmod(writable, 0o777), writable))),
      { code: "CONFIG_INVALID", message: /written to by all users/ },
    );
  });

  it("ends a program that hangs when its time is over, or when the agent stops", async () => {
    const hangs = await program("setInterval(() => undefined, 1e6)");
    // Its time is over as soon as it is measured: a delay of its own seconds ends at once, all others never.
    const clock: Clock = {
      ...nodeClock(),
      after: (delayMs, callback) => {
        const timer = delayMs === 30_000 ? setImmediate(callback) : undefined;
        return () => {
          clearImmediate(timer);
        };
      },
    };
    const late = await open(hangs, { clock });
    await assert.rejects(Promise.resolve(late.sign(Buffer.from("bytes"))), {
      code: "SIGNER_FAILED",
      message: /did not end within 30 seconds/,
    });
    const stopping = new AbortController();
    const key = await open(hangs, { signal: stopping.signal });
    const signed = Promise.resolve(key.sign(Buffer.from("bytes")));
    stopping.abort();
    await assert.rejects(signed, { code: "SIGNER_FAILED", message: /the agent stops/ });
  });

  it("belongs to the enrolment with its public key, and to no other", async () => {
    const program = generateKey(nodeRandom());
    const without = { device: "van-7", deviceSeed: undefined, devicePublicKey: program.publicKey };
    assert.equal(deviceKeyOf(without, program), program);
    const configInvalid = { code: "CONFIG_INVALID" };
    assert.throws(() => deviceKeyOf(without, undefined), configInvalid);
    assert.throws(() => deviceKeyOf({ ...without, devicePublicKey: publicKey }, program), configInvalid);
    const inFile = { device: "van-7", deviceSeed: seed, devicePublicKey: publicKey };
    assert.throws(() => deviceKeyOf(inFile, program), configInvalid);
  });
});
