/** Text in templates stays text, whatever it is. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { escaped, html, shortened } from "../../../../../server/cli/page/markup.js";
import { printable } from "../../../../../shared/printable.js";
import { hostileTexts } from "../../../../helpers/page-examples.js";

const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.constantFrom(...hostileTexts),
  fc.stringMatching(/^[&<>"'\n/!a-z-]{0,40}$/),
);
const unescaped = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => {
    const characters: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };
    return characters[name] ?? "";
  });

test("no text ends an element, an attribute or a comment, and none is lost", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const made = html`<p title="${text}">${[text, html`<b>${text}</b>`]}</p>`.toString();
      assert.equal(made.match(/[<>"']/g)?.join(""), `<""><><><>`);
      assert.doesNotMatch(made, /&(?!(amp|lt|gt|quot|#39);)|(?!\n)\p{Cc}|\p{Cf}/u);
      assert.equal(unescaped(escaped(text)), printable(text));
    }),
  );
});

test("what no template made is text", () => {
  const forged = { toString: () => "<script>" } as unknown as string;
  assert.throws(() => html`${forged}`);
  assert.equal(html`a${undefined}${0}${[]}`.toString(), "a0");
});

test("a text is shortened between characters", () => {
  assert.equal(shortened("abcdef", 6), "abcdef");
  assert.equal(shortened("abcdef", 4), "abc…");
  assert.doesNotMatch(shortened("a\u{1f600}\u{1f600}", 4), /\p{Cs}/u);
});
