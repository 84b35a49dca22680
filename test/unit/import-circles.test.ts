/**
 * No source file imports itself through others: not when modules load, not behind `await import()`, and not by types
 * alone, but for those circles of types that are part of the training engine.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const topFolders = ["shared", "agent", "server", "firmware-profiles"];

type ImportKind = "value" | "type";

interface Import {
  readonly to: string;
  readonly kind: ImportKind;
}

/** Circles of types between files that are part of the training engine, whose files do not move. */
const knownTypeCircles: readonly (readonly string[])[] = [
  ["shared/train/kernels/kernel-thread.ts", "shared/train/kernels/kernel-threads.ts"],
  ["shared/train/datasets/dataset.ts", "shared/train/evaluation.ts", "shared/train/training.ts"],
  ["shared/train/evaluation-pass.ts", "shared/train/fit.ts", "shared/train/training-state.ts"],
  ["shared/train/reported-provenance.ts", "shared/train/run-training.ts"],
  ["shared/train/kernels/convolution-forward.ts", "shared/train/kernels/depthwise.ts"],
];

const fromStatement = /^(?:import|export)\s+(?:([^"';]*?)\s+from\s+)?["'](\.{1,2}\/[^"']+)["']/gm;
const importCall = /\bimport\(\s*["'](\.{1,2}\/[^"']+)["']/g;

/** A statement that imports types only disappears when the file is compiled. */
function kindOf(clause: string): ImportKind {
  if (/^type\s/.test(clause)) return "type";
  const names = /^\{([^}]*)\}$/s
    .exec(clause)?.[1]
    ?.split(",")
    .map((name) => name.trim());
  const present = names?.filter((name) => name !== "") ?? [];
  return present.length > 0 && present.every((name) => name.startsWith("type ")) ? "type" : "value";
}

function importsOf(path: string): readonly Import[] {
  const text = readFileSync(join(root, path), "utf8");
  const resolved = (target: string): string => join(dirname(path), target).replace(/\.js$/, ".ts");
  return [
    ...[...text.matchAll(fromStatement)].map(([, clause = "", target = ""]) => ({
      to: resolved(target),
      kind: kindOf(clause),
    })),
    ...[...text.matchAll(importCall)].map(([, target = ""]) => ({
      to: resolved(target),
      kind: "value" as const,
    })),
  ];
}

const sources = topFolders.flatMap((top) =>
  readdirSync(join(root, top), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"))
    .map((name) => join(top, name)),
);
const imports = new Map(sources.map((path) => [path, importsOf(path)]));

/** The groups of files that all import each other, directly or through others (Tarjan 1972). */
function circlesOf(kinds: readonly ImportKind[]): readonly (readonly string[])[] {
  const circles: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  const lower = (path: string, to: number | undefined): void => {
    lowest.set(path, Math.min(lowest.get(path) ?? Infinity, to ?? Infinity));
  };
  const visit = (path: string): void => {
    order.set(path, order.size);
    lower(path, order.get(path));
    open.push(path);
    isOpen.add(path);
    for (const { to, kind } of imports.get(path) ?? []) {
      if (!kinds.includes(kind) || !imports.has(to)) continue;
      if (!order.has(to)) {
        visit(to);
        lower(path, lowest.get(to));
      } else if (isOpen.has(to)) lower(path, order.get(to));
    }
    if (lowest.get(path) !== order.get(path)) return;
    const circle = open.splice(open.indexOf(path));
    for (const each of circle) isOpen.delete(each);
    if (circle.length > 1) circles.push(circle.sort());
  };
  for (const path of sources) if (!order.has(path)) visit(path);
  return circles;
}

function isKnown(circle: readonly string[], known: readonly (readonly string[])[]): boolean {
  return known.some((files) => files.every((file) => circle.includes(file)));
}

test("no circle of values is closed, neither when files load nor later", () => {
  assert.deepEqual(circlesOf(["value"]), []);
});

test("no circle is closed by types", () => {
  assert.deepEqual(
    circlesOf(["value", "type"]).filter((circle) => !isKnown(circle, knownTypeCircles)),
    [],
  );
});

test("the rules find imports of each kind", () => {
  const kinds = [...imports.values()].flat().map(({ kind }) => kind);
  assert.ok(kinds.filter((kind) => kind === "value").length > 1000);
  assert.ok(kinds.filter((kind) => kind === "type").length > 1000);
  assert.equal(kindOf("{ type A, type B }"), "type");
  assert.equal(kindOf("{ type A, b }"), "value");
});
