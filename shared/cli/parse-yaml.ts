/** Reads YAML, with its library loaded only now, as in output.ts: few commands need it. */
import { createRequire } from "node:module";

/** @throws what the library throws; also for more than 50 aliases, since a few lines could stand for gigabytes */
export function parseYaml(text: string): unknown {
  const { parse } = createRequire(import.meta.url)("yaml") as typeof import("yaml");
  return parse(text, { maxAliasCount: 50 }) as unknown;
}
