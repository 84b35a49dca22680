/** The lint rule `stemma/comment-start`: which comments it refuses, and how it says to begin instead. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Linter } from "eslint";
import tseslint from "typescript-eslint";
import { launcherModule } from "../../helpers/launcher-modules.js";

const { default: stemma, firstWord } = await launcherModule<{
  readonly default: NonNullable<Linter.Config["plugins"]>[string];
  readonly firstWord: (text: string) => string | undefined;
}>("launcher/lint/comment-start.mjs");

const config: Linter.Config = {
  files: ["**/*.ts"],
  languageOptions: { parser: tseslint.parser },
  plugins: { stemma },
  rules: { "stemma/comment-start": "error" },
};

/** Lints a text; returns the line and the message of each refused comment. */
function refused(text: string): readonly (readonly [line: number, message: string])[] {
  const messages = new Linter().verify(text, config, "shared/x.ts");
  assert.deepEqual(
    messages.filter(({ fatal }) => fatal),
    [],
  );
  return messages.map(({ line, message }) => [line, message]);
}

const linesOf = (text: string): readonly number[] => refused(text).map(([line]) => line);

describe("the lint rule comment-start", () => {
  it("refuses a member's comment that is the rest of a sentence", () => {
    const text = `interface Drop {
  /** Of training, for any recovery. */
  readonly maxMinutes: number;
  // When it was dropped.
  readonly atMs: number;
  /** The reason, for people. */
  readonly because: string;
}`;
    assert.deepEqual(linesOf(text), [2, 4]);
  });

  it("judges the head of a file, classes, functions, constants and members of unions", () => {
    const text = `/** What a file is for. */
import { a } from "./a.js";

/** How many. */
export const count = 1;
/** Which of them. */
function choose(): void {}
class Door {
  /** Whether it is open. */
  isOpen = false;
  /** Why it closes. */
  close(): void {}
}
type Step =
  /** Where it waits. */
  | { readonly do: "wait" };`;
    assert.deepEqual(linesOf(text), [1, 4, 6, 9, 11, 15]);
  });

  it("says how to begin instead, by the kind of word", () => {
    const adviceOf = (word: string): string => refused(`/** ${word} x. */\nlet a;`)[0]?.[1] ?? "";
    assert.match(adviceOf("Whether"), /begins with "Whether".*"True if …"/);
    assert.match(adviceOf("What"), /"Returns the version that …"/);
    assert.match(adviceOf("Undefined"), /undefined where …/);
    assert.match(adviceOf("Of"), /The size of each object/);
  });

  it("judges the first line of a comment of several lines, and not the others", () => {
    assert.deepEqual(linesOf("// The cost\n// Of a training.\nconst a = 1;"), []);
    assert.deepEqual(linesOf("/**\n * Of a training,\n * in minutes.\n */\nconst a = 1;"), [1]);
  });

  it("leaves comments within functions, tags and longer words alone", () => {
    const text = `/** @throws NOT_FOUND */
function find(): void {
  // Where nothing is left, nothing is searched.
  return;
}
/** Offers of a server. */
const offers = [];
/** In-flight blocks. */
const blocks = [];`;
    assert.deepEqual(linesOf(text), []);
    assert.equal(firstWord("* Of training"), "Of");
    assert.equal(firstWord("* @throws NOT_FOUND"), undefined);
    assert.equal(firstWord("* Server's key"), undefined);
  });
});
