/** A whole journal beside heads of it that somebody kept: each head that is not of it is named. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { JournalCheck } from "../../../../shared/journal/journal-check.js";
import type { JournalHead } from "../../../../shared/journal/journal.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";

/** The entries of a journal and its head after each of them, from none on. */
async function written(facts: readonly number[]) {
  const journal = await openJournal<{ n: number }>(memoryFiles(), "/journal");
  const heads: JournalHead[] = [journal.head()];
  for (const n of facts) {
    await journal.append([{ n }]);
    heads.push(journal.head());
  }
  await journal.close();
  return { entries: facts.map((n) => Buffer.from(JSON.stringify({ n }))), heads };
}

function differing(entries: readonly Uint8Array[], heads: readonly JournalHead[]) {
  const check = new JournalCheck(heads);
  for (const entry of entries) check.add(entry);
  assert.equal(check.length, entries.length);
  return check.different();
}

it("has every head that it had, from the empty one on, in whatever order they were kept", async () => {
  const { entries, heads } = await written([1, 2, 3, 4, 5]);
  assert.deepEqual(differing(entries, []), []);
  assert.deepEqual(differing(entries, heads.toReversed()), []);
  assert.deepEqual(differing([], heads.slice(0, 1)), []);
});

it("has no head of another history, nor one of a longer journal", async () => {
  const { entries, heads } = await written([1, 2, 3, 4, 5]);
  const other = await written([1, 2, 9, 4, 5]);
  // Those of both histories at the same length are told apart.
  assert.deepEqual(differing(entries, [...other.heads, ...heads]), other.heads.slice(3));
  assert.deepEqual(differing(entries.slice(0, 3), heads), heads.slice(4));
  const last = heads.at(-1)!;
  for (const wrong of [
    { ...last, root: sha256("x") },
    { ...last, chain: sha256("x") },
    { ...heads[0]!, root: sha256("x") },
  ])
    assert.deepEqual(differing(entries, [last, wrong]), [wrong]);
});
