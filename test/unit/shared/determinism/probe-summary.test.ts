/** Summaries of probes as files from outside, and what two of them can and cannot tell. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  exactDifference,
  knownDifference,
  mergeRuns,
  probeDifferences,
  whyIncomparable,
} from "../../../../shared/determinism/compare-probes.js";
import { figuresOf } from "../../../../shared/determinism/figures.js";
import { describeComparison, describeProbe } from "../../../../shared/determinism/probe-text.js";
import { decodeProbe, encodeProbe, type ProbeSummary } from "../../../../shared/determinism/probe-summary.js";
import { encodeCanonical } from "../../../../shared/model/canonical-json.js";
import { printable } from "../../../../shared/printable.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { hasCode } from "../../../helpers/object-stores.js";

const figures = (...numbers: number[]) => figuresOf(Float32Array.from(numbers), [numbers.length]);
const passOf = (name: string, ...numbers: number[]) => ({
  outputs: [figures(...numbers)],
  operations: [{ name, kernel: "wasm stemma", digest: sha256(String(numbers)).slice(0, 16) }],
  unlisted: 0,
});

/** Two layers, of which the second gives these numbers. */
function summaryOf(second: readonly number[], more: Partial<ProbeSummary> = {}): ProbeSummary {
  const layer = (className: string, inputs: readonly number[], numbers: readonly number[]) => ({
    className,
    inputs: inputs.map((from) => ({ layer: from, output: 0 })),
    evaluation: passOf("Relu", ...numbers),
    training: passOf("Relu", ...numbers),
    backward: { ...passOf("Relu", 1, 1), weights: [] },
  });
  return {
    format: 1,
    kind: "stemma-probe",
    model: { architecture: sha256("a"), root: sha256("r"), weights: "own", parameters: 1 },
    inputs: { seed: "1", batch: 2, tensors: [figures(1, 2)] },
    environment: { backend: "wasm", node: "v20.20.2" },
    layers: [layer("InputLayer", [], [1, 2]), layer("Dense", [0], second)],
    loss: figures(1),
    refused: null,
    runs: { count: 2, differing: 0 },
    ...more,
  };
}

test("a summary reads back as it was written; any flipped bit is found", () => {
  const summary = summaryOf([NaN, -0, Infinity]);
  const bytes = encodeProbe(summary);
  assert.deepEqual(decodeProbe(bytes, "f"), summary);
  for (let at = 0; at < bytes.length; at += 31) {
    const flipped = bytes.slice();
    flipped[at]! ^= 1 << (at % 8);
    assert.throws(() => decodeProbe(flipped, "f"), hasCode("CANONICAL_JSON_INVALID"), `byte ${at}`);
  }
  for (const length of [0, 1, bytes.length - 1])
    assert.throws(() => decodeProbe(bytes.subarray(0, length), "f"), hasCode("CANONICAL_JSON_INVALID"));
});

test("another form is named; other documents, markup and unknown members are refused", () => {
  const refusal = (value: unknown): string => {
    try {
      decodeProbe(encodeCanonical(value as never), "f");
    } catch (error) {
      assert.ok(hasCode("CANONICAL_JSON_INVALID")(error));
      return (error as Error).message;
    }
    return "";
  };
  assert.match(
    refusal({ ...summaryOf([1]), format: 2 }),
    /has the form 2, and this release reads the form 1/,
  );
  for (const value of [null, [], "x", {}, { kind: "stemma-probe" }, { ...summaryOf([1]), more: 1 }])
    assert.notEqual(refusal(value), "", JSON.stringify(value));
  const [input] = summaryOf([1]).layers;
  for (const className of ["<script>", "Dense\u001b[2J", "", "D".repeat(81)])
    assert.match(refusal(summaryOf([1], { layers: [{ ...input!, className }] })), /layers\.0\.className/);
  assert.match(refusal(summaryOf([1])), /damaged/, "without its sum");
});

test("millions of layers are refused before anything is made of them", () => {
  const start = performance.now();
  for (const bytes of [
    Buffer.from(`{"format":1,"kind":"stemma-probe","layers":[${"{},".repeat(3_000_000)}{}]}`),
    Buffer.alloc(65 * 1024 * 1024, "["),
    Buffer.from("[".repeat(1_000_000)),
  ])
    assert.throws(() => decodeProbe(bytes, "f"), hasCode("CANONICAL_JSON_INVALID"));
  assert.ok(performance.now() - start < 5000);
});

test("only probes of the same model, inputs and seed are compared, and what is not is named", () => {
  const a = summaryOf([1, 2]);
  assert.deepEqual(whyIncomparable(a, a), []);
  const { model, inputs } = a;
  const reasons = (other: Partial<ProbeSummary>): string =>
    whyIncomparable(a, summaryOf([1, 2], other)).join("; ");
  assert.match(reasons({ model: { ...model, architecture: sha256("b") } }), /^the architecture/);
  assert.match(reasons({ model: { ...model, root: sha256("b") } }), /^the weights/);
  assert.match(reasons({ inputs: { ...inputs, seed: "2" } }), /^the seed \(1 and 2\)$/);
  assert.match(reasons({ inputs: { ...inputs, batch: 3 } }), /^the batch/);
  assert.match(reasons({ inputs: { ...inputs, tensors: [figures(1, 3)] } }), /^the inputs, though/);
  const named = (...names: readonly string[]): ProbeSummary => ({
    ...a,
    layers: a.layers.map((layer, at) => ({ ...layer, name: names[at] ?? "" })),
  });
  assert.deepEqual(whyIncomparable(named("a", "b"), named("a", "b")), []);
  assert.deepEqual(whyIncomparable(named("a", "b"), named("a", "c")), ["layer 1 (b and c)"]);
});

test("the first difference is the first in the order of the training, with the operation that made it", () => {
  const [a, b] = [summaryOf([1, 2]), summaryOf([1, 3])];
  const { differences, compared } = probeDifferences(a, b);
  assert.equal(compared, 6);
  assert.deepEqual(
    differences.map(({ phase, layer, value, operation }) => [phase, layer, value, operation.kind]),
    ["evaluation", "training"].map((phase) => [phase, 1, "output 0", "differs"]),
  );
  const text = describeComparison(a, b, { comparison: probeDifferences(a, b) }).join("\n");
  assert.match(text, /^different: 2 of 6/);
  assert.match(
    text,
    /the evaluation, layer 1 \(Dense\), output 0\n {2}first operation that differs: number 1, Relu/,
  );
  assert.match(text, /largest difference at least 1\.00, by range and 2 of 2 numbers \(numbers up to 3\)/);
  const backward = probeDifferences(a, {
    ...a,
    layers: a.layers.map((layer) => ({ ...layer, backward: { ...passOf("Relu", 5, 5), weights: [] } })),
  }).differences;
  assert.deepEqual(
    backward.map(({ layer }) => layer),
    [1, 0],
    "against the order of the layers",
  );
});

test("a pass that only one reached is not compared, and said so", () => {
  const a = summaryOf([1]);
  const b = summaryOf([1], {
    layers: a.layers.map((layer) => ({ ...layer, training: null, backward: null })),
  });
  const comparison = probeDifferences(a, b);
  assert.deepEqual([comparison.differences.length, comparison.unreached], [0, ["training", "backward"]]);
  assert.match(describeComparison(a, b, { comparison }).join("\n"), /the backward pass: only one of the two/);
});

test("what is not finite has no size, and what range and sample do not show is not guessed", () => {
  const text = (a: number[], b: number[]): string => {
    const [left, right] = [summaryOf(a), summaryOf(b)];
    return describeComparison(left, right, { comparison: probeDifferences(left, right) }).join("\n");
  };
  assert.match(text([NaN, 1], [2, 1]), /how large it is cannot be told: .*\n.*\n {2}NaN: 1 and 0/);
  const numbers = Array.from({ length: 100 }, (_, index) => index);
  const moved = numbers.with(2, 2.5);
  assert.match(text(numbers, moved), /cannot be told from range and 8 of 100 numbers, which are equal/);
});

test("the largest difference is never less than what is known of it", () => {
  const float = fc.float({ noNaN: true, noDefaultInfinity: true });
  fc.assert(
    fc.property(fc.array(fc.tuple(float, float), { minLength: 1, maxLength: 40 }), (pairs) => {
      const [a, b] = [0, 1].map((side) => Float32Array.from(pairs.map((pair) => pair[side]!)));
      const known = knownDifference(figuresOf(a!, [pairs.length]), figuresOf(b!, [pairs.length]));
      const { largest, differing } = exactDifference(a!, b!);
      assert.ok(known.atLeast! <= largest);
      assert.equal(differing, pairs.filter(([x, y]) => !Object.is(x, y)).length);
    }),
  );
});

test("runs of one machine that do not agree are counted, against the first of them", () => {
  const [a, b] = [summaryOf([1]), summaryOf([2])];
  const { summary, difference } = mergeRuns([a, b, a]);
  assert.deepEqual([summary.runs, difference?.layer], [{ count: 3, differing: 2 }, 1]);
  assert.deepEqual(mergeRuns([a, a]), {
    summary: { ...a, runs: { count: 2, differing: 0 } },
    difference: undefined,
  });
});

test("a run that lacks a pass of the others did not give the same", () => {
  const whole = summaryOf([1]);
  const cut = { ...whole, layers: whole.layers.map((layer) => ({ ...layer, backward: null })) };
  const { summary, difference } = mergeRuns([whole, cut]);
  assert.deepEqual([summary.runs.differing, difference], [1, undefined]);
  assert.match(
    describeProbe("m", summary)[0]!,
    /did NOT give the same bits: 1 values or passes are missing in one/,
  );
});

test("words of a machine are shown without what controls a terminal, and runs that differ are said loudly", () => {
  const summary = summaryOf([1], {
    environment: { backend: "wasm\u001b[2J" },
    runs: { count: 2, differing: 3 },
  });
  assert.deepEqual(decodeProbe(encodeProbe(summary), "f"), summary);
  assert.ok(!printable(describeProbe("m", summary).join("\n")).includes("\u001b"));
  const [first] = probeDifferences(summaryOf([1]), summaryOf([2])).differences;
  assert.match(describeProbe("m", summary, first)[0]!, /2 runs did NOT give the same bits: 3 values differ/);
});
