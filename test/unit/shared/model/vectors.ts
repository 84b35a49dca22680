/**
 * Reads the golden vectors of identities. They were computed by another program; nothing here writes them.
 */
import { readFileSync } from "node:fs";

const folder = new URL("../../../vectors/identities/", import.meta.url);
export function vectorBytes(name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(name, folder)));
}
export function vectors<T>(name: string): T {
  return JSON.parse(Buffer.from(vectorBytes(name)).toString("utf8")) as T;
}
export function unhex(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, "hex"));
}
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
