/** A witness of journals: signs as C2SP's tlog-cosignature says, without the code that is tested. */
import { createHash, generateKeyPairSync, sign, type KeyObject } from "node:crypto";

export interface TestWitness {
  readonly name: string;
  /** 64 hex digits. */
  readonly publicKey: string;
  /** The key as it is given to those who ask for cosignatures. */
  readonly vkey: string;
  /** The line below a checkpoint, stating this time. */
  cosign(checkpoint: string, seconds: number): string;
}

export const rawKey = (key: KeyObject): Buffer => key.export({ format: "der", type: "spki" }).subarray(-32);

/** The id of a note's key: SHA-256 of name, line feed, type and key, its first four bytes. */
export const noteIdOf = (name: string, type: number, key: KeyObject): Buffer =>
  createHash("sha256")
    .update(Buffer.concat([Buffer.from(name), Buffer.of(10, type), rawKey(key)]))
    .digest()
    .subarray(0, 4);

export function testWitness(name: string): TestWitness {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const id = noteIdOf(name, 4, publicKey);
  const key = Buffer.concat([Buffer.of(4), rawKey(publicKey)]).toString("base64");
  return {
    name,
    publicKey: rawKey(publicKey).toString("hex"),
    vkey: `${name}+${id.toString("hex")}+${key}`,
    cosign: (checkpoint, seconds) => {
      const body = checkpoint.slice(0, checkpoint.indexOf("\n\n") + 1);
      const time = Buffer.alloc(8);
      time.writeUInt32BE(seconds, 4);
      const signature = sign(null, Buffer.from(`cosignature/v1\ntime ${seconds}\n${body}`), privateKey);
      return `— ${name} ${Buffer.concat([id, time, signature]).toString("base64")}\n`;
    },
  };
}
