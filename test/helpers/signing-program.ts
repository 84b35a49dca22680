/** A program that has a key and signs with it, as a TPM's tool does. */

/** The text of a Node program, without its first line. @param seed of the key, 64 hexadecimal digits */
export function signingProgramText(seed: string): string {
  return `
import { createPrivateKey, sign } from "node:crypto";
import { readFileSync } from "node:fs";
const der = Buffer.from("302e020100300506032b657004220420${seed}", "hex");
const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
console.log(sign(null, readFileSync(0), key).toString("hex"));
`;
}
