/** Mutants of a source: small sources in, mutants out. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { transformSync } from "esbuild";

interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly kind: string;
  readonly original: string;
  readonly mutated: string;
}
interface Generate {
  readonly mutantsOf: (file: string, text: string) => readonly Mutant[];
  readonly withMutant: (text: string, mutant: Mutant) => string;
  readonly sampleOf: <T>(mutants: readonly T[], count: number, seed: number) => readonly T[];
}
interface Rooms {
  readonly roomNames: readonly string[];
  readonly filesOfRoom: (root: string, room: string) => readonly string[];
}

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../../../../..");
const load = (name: string): Promise<unknown> =>
  import(pathToFileURL(join(root, "launcher/mutants", name)).href);
const { mutantsOf, sampleOf, withMutant } = (await load("generate.mjs")) as Generate;
const { filesOfRoom, roomNames } = (await load("rooms.mjs")) as Rooms;

/** The texts that the mutants of a source have, each as "kind: text". */
const textsOf = (source: string): readonly string[] =>
  mutantsOf("a.ts", source).map((mutant) => `${mutant.kind}: ${withMutant(source, mutant)}`);

describe("mutants", () => {
  for (const [what, source, expected] of [
    ["a boundary", "f = a < b;", ["comparison: f = (a <= b);"]],
    ["an equality", "f = a === b;", ["comparison: f = (a !== b);"]],
    ["both operands' bond", "f = a && b || c;", ["logic: f = (a && b && c);", "logic: f = (a || b) || c;"]],
    ["a sign", "f = a + b;", ["arithmetic: f = (a - b);"]],
    ["a running sum", "f += a;", ["arithmetic: f -= a;"]],
    [
      "a compared number",
      "f = a > 3;",
      ["comparison: f = (a >= 3);", "literal: f = a > (3 + 1);", "literal: f = a > (3 - 1);"],
    ],
    ["a compared text", 'f = a === "b";', ['comparison: f = (a !== "b");', 'literal: f = a === "b-other";']],
    ["a fallback", "f = a ?? b;", ["default: f = (a);", "default: f = (b);"]],
    ["a negation", "f = !a;", ["condition: f = a;"]],
    ["a call for its effect", "f(a);", ["statement: ;"]],
    ["an awaited call", "await f(a);", ["statement: ;"]],
    ["a quantifier", "f = a.some(g);", ["call: f = a.every(g);"]],
    [
      "a default argument",
      "const f = (a = b): void => g(a);",
      ["default: const f = (a = undefined): void => g(a);"],
    ],
    ["a guard", "if (a) throw b;", ["condition: if (!(a)) throw b;", "guard: if (false) throw b;"]],
    ["what a filter lets through", "f = a.filter((b) => b.c);", ["condition: f = a.filter((b) => !(b.c));"]],
    [
      "a returned truth",
      "function f(): boolean { return g; }",
      ["return: function f(): boolean { return !(g); }"],
    ],
    [
      "a returned set",
      "function f(): ReadonlySet<A> { return g; }",
      ["return: function f(): ReadonlySet<A> { return new Set(); }"],
    ],
    ["a returned list", "const f = (): string[] => g;", ["return: const f = (): string[] => [];"]],
    [
      "a promised value that may be absent",
      "async function f(): Promise<A | undefined> { return g; }",
      ["return: async function f(): Promise<A | undefined> { return undefined; }"],
    ],
  ] as const)
    it(`change ${what}`, () => assert.deepEqual([...textsOf(source)].sort(), [...expected].sort()));

  it("leave types, imports, texts of errors and other texts as they are", () => {
    const source = `import { a } from "a";
      export type B = "b" | 3;
      interface C { readonly d: 4 }
      const e = \`it took \${f.toPrecision(3)} more ms\` + "text";
      throw new StemmaError("CODE", g > 1 ? "one" : "many");`;
    assert.deepEqual(textsOf(source), []);
  });

  it("name their place, from 1, and what they replace", () => {
    const [mutant] = mutantsOf("server/a.ts", "const a = 1n;\nexport const b =\n  c <= d;");
    assert.deepEqual(
      [mutant?.file, mutant?.line, mutant?.column, mutant?.original, mutant?.mutated],
      ["server/a.ts", 3, 3, "c <= d", "(c < d)"],
    );
  });

  it("are programs, each another one, of every file of every room", () => {
    const compile = (text: string): string => transformSync(text, { loader: "ts", format: "esm" }).code;
    for (const room of roomNames) {
      let mutants = 0;
      for (const file of filesOfRoom(root, room)) {
        const text = readFileSync(join(root, file), "utf8");
        const own = mutantsOf(file, text);
        mutants += own.length;
        for (const mutant of sampleOf(own, 1, 1))
          assert.notEqual(compile(withMutant(text, mutant)), compile(text), JSON.stringify(mutant));
      }
      assert.ok(mutants > 100, `${room} has ${mutants} mutants`);
    }
  });
});

describe("a sample of mutants", () => {
  const all = Array.from({ length: 1000 }, (_, index) => index);

  it("is the same for a seed, another one for another seed, in order and without repetition", () => {
    const sample = sampleOf(all, 50, 7);
    assert.equal(sample.length, 50);
    assert.deepEqual(sampleOf(all, 50, 7), sample);
    assert.notDeepEqual(sampleOf(all, 50, 8), sample);
    assert.deepEqual(
      [...new Set(sample)].sort((one, other) => one - other),
      sample,
    );
  });

  it("is everything where there are no more", () => {
    assert.deepEqual(sampleOf(all, 5000, 7), all);
  });
});
