// A server loads no module of its own while it runs: a load that fails once would fail until the next start.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../../..");
/** Parts that commands, clients and devices run, not servers. */
const elsewhere =
  /^(server|shared)\/cli\/|^shared\/train\/native\/|^server\/interface\/http\/(client|request)\.ts$/;
/** Loaded when such a server starts: it opens its broker before anything else. */
const opened = "server/access/broker/external-broker.js";

function sourcesOf(room: string): readonly string[] {
  return readdirSync(join(root, room), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => posix.join(room, name.replaceAll("\\", "/")));
}

test("a server starts with every module of its own that its code imports later", () => {
  const later = new Set<string>();
  for (const path of ["server", "shared"].flatMap(sourcesOf)) {
    if (elsewhere.test(path)) continue;
    const text = readFileSync(join(root, path), "utf8");
    for (const [, name = ""] of text.matchAll(/\bimport\(\s*"(\.[^"]+)"\s*,?\s*\)(?!\.)/g))
      later.add(posix.join(posix.dirname(path), name));
  }
  later.delete(opened);
  const listed = [
    ...readFileSync(join(root, "server/loaded-at-start.ts"), "utf8").matchAll(/^import "(.+)";$/gm),
  ].map(([, name = ""]) => posix.join("server", name));
  assert.ok(listed.length > 50);
  assert.deepEqual(listed.sort(), [...later].sort());
  assert.match(readFileSync(join(root, "server/main.ts"), "utf8"), /^import "\.\/loaded-at-start\.js";$/m);
});
