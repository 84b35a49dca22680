/**
 * The directions between rooms: agent → shared ← server; shared imports neither; firmware-profiles imports
 * nothing.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const rooms = ["shared", "agent", "server", "firmware-profiles"] as const;
const allowed: Record<(typeof rooms)[number], readonly string[]> = {
  shared: ["shared"],
  agent: ["agent", "shared", "firmware-profiles"],
  server: ["server", "shared"],
  "firmware-profiles": ["firmware-profiles"],
};

function sourcesOf(room: string): string[] {
  return readdirSync(join(root, room), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => join(root, room, name));
}

function relativeImports(path: string): string[] {
  const text = readFileSync(path, "utf8");
  return [...text.matchAll(/(?:from\s+|import\s*\(\s*|import\s+)["'](\.{1,2}\/[^"']+)["']/g)].map((match) =>
    resolve(dirname(path), match[1]!),
  );
}

for (const room of rooms) {
  test(`${room} imports only ${allowed[room].join(", ")}`, () => {
    const strays = sourcesOf(room).flatMap((path) =>
      relativeImports(path)
        .map((target) => relative(root, target).split("/")[0]!)
        .filter((target) => !allowed[room].includes(target))
        .map((target) => `${relative(root, path)} imports from ${target}`),
    );
    assert.deepEqual(strays, []);
  });
}

test("the rule sees imports at all", () => {
  assert.ok(sourcesOf("shared").some((path) => relativeImports(path).length > 0));
});

test("every dependency runs on the oldest Node that Stemma supports", () => {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, { engines?: { node?: string }; resolved?: string; integrity?: string }>;
  };
  const tooNew = Object.entries(lock.packages)
    .filter(([, entry]) => entry.engines?.node !== undefined && !admits(entry.engines.node, [20, 19, 0]))
    .map(([name, entry]) => `${name} wants Node ${entry.engines?.node}`);
  assert.deepEqual(tooNew, []);
  assert.deepEqual(
    Object.entries(lock.packages)
      .filter(([, entry]) => entry.resolved?.startsWith("http"))
      .map(([name]) => name),
    [],
  );
  assert.deepEqual(
    Object.entries(lock.packages)
      .filter(([name, entry]) => name !== "" && entry.integrity === undefined)
      .map(([name]) => name),
    [],
  );
});

/** Whether a semver range admits a version; enough of the grammar for `engines` fields. */
function admits(range: string, version: readonly [number, number, number]): boolean {
  return range.split("||").some((part) =>
    part
      .trim()
      .replace(/([<>=~^v])\s+/g, "$1")
      .split(/\s+/)
      .every((term) => admitsTerm(term, version)),
  );
}
function admitsTerm(term: string, version: readonly [number, number, number]): boolean {
  const match = /^(>=|<=|>|<|=|\^|~)?v?(\d+|\*|x)?(?:\.(\d+|\*|x))?(?:\.(\d+|\*|x))?/.exec(term);
  if (!match || match[2] === undefined || match[2] === "*" || match[2] === "x") return true;
  const wanted = [match[2], match[3], match[4]].map((digit) =>
    digit === undefined || digit === "*" || digit === "x" ? 0 : Number(digit),
  ) as [number, number, number];
  const order = Math.sign(version[0] - wanted[0] || version[1] - wanted[1] || version[2] - wanted[2]);
  switch (match[1]) {
    case ">=":
      return order >= 0;
    case ">":
      return order > 0;
    case "<":
      return order < 0;
    case "<=":
      return order <= 0;
    case "^":
      return order >= 0 && version[0] === wanted[0];
    case "~":
      return order >= 0 && version[0] === wanted[0] && version[1] === wanted[1];
    default:
      return (
        version[0] === wanted[0] &&
        (match[3] === undefined || version[1] === wanted[1]) &&
        (match[4] === undefined || version[2] === wanted[2])
      );
  }
}
