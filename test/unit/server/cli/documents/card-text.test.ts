/** Texts of others stay texts in a model card: no markup, links, HTML or unseen characters, and bounded. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { cardText, codeSpan, shownText } from "../../../../../server/cli/documents/card-text.js";
import { modelCard } from "../../../../../server/cli/documents/model-card.js";
import { hostileSource } from "../../../../helpers/document-examples.js";
import { hostileTexts } from "../../../../helpers/page-examples.js";

/** Splits a line into what is outside of code spans and what is in them (CommonMark 0.31, section 6.1). */
function spansOf(line: string): { readonly outside: string; readonly inside: readonly string[] } {
  const inside: string[] = [];
  let outside = "";
  for (let at = 0; at < line.length;) {
    const [open = ""] = /^`+/.exec(line.slice(at)) ?? [];
    if (open === "") {
      outside += line[at++] ?? "";
      continue;
    }
    const rest = line.slice(at + open.length);
    const close = [...rest.matchAll(/`+/g)].find(([run]) => run.length === open.length);
    assert.ok(close, "a code span that does not end");
    const content = rest.slice(0, close.index);
    const isPadded = content.startsWith(" ") && content.endsWith(" ") && content.trim() !== "";
    inside.push(isPadded ? content.slice(1, -1) : content);
    at += open.length + close.index + open.length;
  }
  return { outside, inside };
}

const unseen = /\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}/u;
const texts = fc.oneof(
  fc.string({ unit: "binary", maxLength: 700 }),
  fc.string({ unit: fc.constantFrom("`", " ", "\n", "|", "<", "a", "\\", "]", "\u202e"), maxLength: 40 }),
);

test("a code span gives back its text, whatever that is", () => {
  fc.assert(
    fc.property(texts, (text) => {
      const shown = shownText(text);
      assert.doesNotMatch(shown, unseen);
      assert.ok(!shown.includes("\n"));
      if (shown === "") return;
      const { outside, inside } = spansOf(`- note: ${codeSpan(shown)} (stated)`);
      assert.equal(outside, "- note:  (stated)");
      assert.deepEqual(inside, [shown]);
    }),
  );
});

/** The words of a card for which every text is the same. */
function outsideOf(text: string): readonly string[] {
  return cardText(modelCard(hostileSource(text)))
    .split("\n")
    .map((line) => spansOf(line).outside);
}

/** Words that a card knows, and so writes as its own: names of facts, and where a parameter came from. */
const ownWords = /^(?:os|stemma|call|default|file)$/;

test("nothing outside of code spans depends on what others wrote", () => {
  const expected = outsideOf("plain");
  for (const text of [...hostileTexts, "`", "``` `", "# a\n\n- b", "[x](http://evil.example)", "\u202e"])
    assert.deepEqual(outsideOf(text), expected);
  fc.assert(
    fc.property(
      texts.filter((text) => text !== "" && !ownWords.test(text)),
      (text) => {
        assert.equal(outsideOf(text).join("\n"), expected.join("\n"));
      },
    ),
    { numRuns: 50 },
  );
});

test("a long text is cut, and says how long it is", () => {
  const shown = shownText("w".repeat(10_000));
  assert.match(shown, /^w{600} … \(10000 characters\)$/);
  assert.ok(cardText(modelCard(hostileSource("w".repeat(10_000)))).length < 100_000);
});

test("many statements alike are counted", () => {
  const { described, ...others } = hostileSource("x");
  const environment = Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`field${at}`, "1"]));
  const text = cardText(modelCard({ ...others, described: { ...described, environment } }));
  assert.match(text, /\n- environment: 700 more \(all with -o json\)\n/);
});
