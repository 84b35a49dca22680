/**
 * When an agent codes tensors against others before sending: the link's speed, the processor's, and the
 * profile decide.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  decideCoding,
  prefersLowRank,
  type CodingEstimate,
} from "../../../../../shared/wire/coding/decide-coding.js";

const million = 1_000_000;
const auto = { coding: "auto", metered: false, bytesPerSecond: null } as const;
/** 10 MB that would be coded into 6 MB, at 250 MB/s. */
const question: CodingEstimate = {
  link: auto,
  measuredBytesPerSecond: undefined,
  coderBytesPerSecond: 250 * million,
  rawBytes: 10 * million,
  codedBytes: 6 * million,
  tensors: 100,
};
const coded = (change: Partial<CodingEstimate>): boolean => decideCoding({ ...question, ...change }).coded;

test("the profile's setting takes precedence over every measurement", () => {
  assert.equal(coded({ link: { ...auto, coding: "never", metered: true } }), false);
  assert.equal(
    coded({ link: { ...auto, coding: "always" }, codedBytes: 20 * million, measuredBytesPerSecond: 1e12 }),
    true,
  );
});

test("coding pays on a slow link, not on a fast one", () => {
  assert.equal(coded({ link: { ...auto, bytesPerSecond: 131_072 } }), true);
  assert.equal(coded({ measuredBytesPerSecond: 12.5 * million }), true);
  assert.equal(coded({ measuredBytesPerSecond: 1_000 * million }), false);
  // The profile's budget applies if it is below the link's measured rate.
  assert.equal(
    coded({ link: { ...auto, bytesPerSecond: 131_072 }, measuredBytesPerSecond: 1_000 * million }),
    true,
  );
});

test("a slow processor makes coding more expensive: the limit is where both take equally long", () => {
  // Raw: 10 s at 1 MB/s. Coded: 6 s and the time to code.
  const at = (coderBytesPerSecond: number): boolean =>
    coded({ measuredBytesPerSecond: million, coderBytesPerSecond });
  assert.equal(at(3 * million), true);
  assert.equal(at(2 * million), false);
});

test("on a metered link bytes decide, whatever the time", () => {
  const metered = { ...auto, metered: true };
  assert.equal(
    coded({ link: metered, measuredBytesPerSecond: 1_000 * million, coderBytesPerSecond: million }),
    true,
  );
  assert.equal(coded({ link: metered, codedBytes: 9.9 * million }), false);
});

test("the manifest's bytes for each tensor count: many tiny tensors do not pay", () => {
  assert.equal(
    coded({ link: { ...auto, metered: true }, rawBytes: 100_000, codedBytes: 60_000, tensors: 1_000 }),
    false,
  );
  assert.equal(coded({ rawBytes: 0, codedBytes: 0, tensors: 0 }), false);
});

test("gives the reason, with the figures", () => {
  assert.match(decideCoding(question).because, /^\d+ ms coded, 800 ms raw at 12500000 bytes a second$/);
});

test("low-rank predictions are for metered and slow links", () => {
  assert.equal(prefersLowRank(auto), false);
  assert.equal(prefersLowRank({ ...auto, metered: true }), true);
  assert.equal(prefersLowRank({ ...auto, bytesPerSecond: 131_072 }), true);
  assert.equal(prefersLowRank({ ...auto, bytesPerSecond: 1_250_000 }), false);
});
