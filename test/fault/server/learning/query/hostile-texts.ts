/** Texts that are no honest queries, and what every one of them must end with. */
import assert from "node:assert/strict";
import { runQuery } from "../../../../../server/learning/query/run-query.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { seededNumbers } from "../../../../../shared/random/seeded-numbers.js";
import { weightSlots } from "../../../../../shared/model/architecture.js";
import { randomMutation, randomNetwork } from "../../../../helpers/derived-networks.js";
import { plainModels, randomQuery, sourceOf, type Draw } from "../../../../helpers/query-fleet.js";

const tokens = [
  "select",
  "m",
  "m1",
  "where",
  "(",
  ")",
  "[",
  "]",
  '"',
  "'",
  "\\",
  "and",
  "or",
  "not",
  "in",
  "like",
  "is",
  ...[
    "construct",
    "slice",
    "from",
    "mutate",
    "evaluate",
    "with config",
    "vary",
    "auto",
    "keep",
    "top(",
    ".insert",
    ".delete",
    ".input",
    ".output",
    "RELU",
    "LSTM(units=1)",
  ],
];
const more = [
  "known",
  ".",
  "next",
  "has",
  "POOL",
  ",",
  "=",
  "<>",
  "*",
  "($1)",
  "$1",
  "%",
  "1e999",
  "-1",
  "--",
  "\n",
];
const strange = [
  "\u0000",
  "\u001b[31m",
  "\u202e",
  "\ud800",
  "😀",
  "ﬁ",
  "__proto__",
  "constructor",
  "of",
  "\u2028",
];
const saved = new Map([
  ["mine", "select m where m.number = 1"],
  ["loop", 'select m from "loop"'],
]);
const config = { recipe: "image-classify", input_data: "digits" };
const codes = ["QUERY_INVALID", "QUERY_TOO_LARGE", "MODEL_NOT_FOUND"];

function hostileText(draw: Draw, honest: string): string {
  const any = [...tokens, ...more, ...strange];
  const some = (count: number): string =>
    Array.from({ length: count }, () => any[draw(any.length)]).join(draw(2) ? " " : "");
  const at = draw(honest.length);
  const kinds: (() => string)[] = [
    () => some(1 + draw(60)),
    () => honest.slice(0, at),
    () => honest.slice(0, at) + some(1) + honest.slice(at),
    () => honest.slice(0, at) + honest.slice(at + 1 + draw(5)),
    () => `select m where ${"not ".repeat(draw(4000))}${"(".repeat(draw(60))}m.number = 1`,
    () => `select m where m.name in [${'"x", '.repeat(draw(2700))}"x"]`,
    () => `select m where ${"m in (select m where ".repeat(draw(40))}m.number = 1`,
    () =>
      `select m where m.number = 1${` ${["and", "or"][draw(2)]} m.number != ${draw(9)}`.repeat(draw(700))}`,
    () =>
      `select m where m.name like "${"%n".repeat(draw(200))}" and m["${"*[a-z]".repeat(draw(60))}"] has POOL("${some(3)}")`,
    () => `select a, b, c where ${"a.number = b.number or ".repeat(draw(30))}b ancestor of c`,
    () => some(1).repeat(draw(20_000)),
    () =>
      `construct b from a mutate a["*($1)"].insert = DENSE("${some(2)}$1", units=${draw(9)}${"0".repeat(draw(9))})`,
    () =>
      `construct b from a mutate ${'a["*"].insert = TANH("t") and '.repeat(draw(200))}a["*"].delete = RELU()`,
    () =>
      `construct b from a mutate a["*"].insert = RESHAPE("r", target_shape=[${"[1], ".repeat(draw(500))}${some(1)}])`,
    () =>
      `construct b from a mutate a["*"].insert = ${"TIMEDISTRIBUTED(layer=".repeat(draw(40))}GRU(units=1)`,
    () =>
      `evaluate m in (select ${some(2)}) with config = "${some(1)}" keep top(${draw(3)}, m["loss"], ${draw(9)})`,
    () =>
      `evaluate m from (select m) with config = "c" vary ${'config.batch in [1, 2, 3], config.net["*"].lr auto and '.repeat(draw(3))}config.${["lr", "epochs", "recipe", some(1)][draw(4)] ?? ""} ${["auto", `auto random(${draw(500)})`, `in [${'"x", 1, '.repeat(draw(600))}0.5]`][draw(3)] ?? ""} keep ${['top(2, m["loss"], 5) halving', `above(m["${some(1)}"], ${draw(9)})`][draw(2)] ?? ""}`,
    () =>
      `evaluate m from ${"(".repeat(draw(40))}construct b from a mutate a["*"].insert = TANH("t${some(1)}")) with config = "c" vary config.lr auto keep top(1, m["loss"], ${draw(2e6)})`,
    () => `select m from "${["mine", "loop", some(1)][draw(3)] ?? ""}" where ${some(2)} m.number = 1`,
    () => `slice b from a where ${some(3)} mutate b.input = a["${some(1)}*"] and b.output = a["*"]`,
  ];
  return (kinds[draw(kinds.length)] as () => string)();
}

/** @returns how many ended with an answer, and with each code */
export async function askHostile(seed: number, count: number): Promise<ReadonlyMap<string, number>> {
  const next = seededNumbers(seed);
  const draw: Draw = (below) => Math.floor(next() * Math.max(1, below));
  const models = plainModels(12, draw);
  const ends = new Map<string, number>();
  const { architecture, names } = randomNetwork(draw);
  const leaves = weightSlots(architecture).map(({ path }) => path);
  const layers = names.map((name, at) => `${name}${strange[at % strange.length] ?? ""}`);
  const stored = { architecture, names: { leaves, layers } };
  for (let at = 0; at < count; at++) {
    const honest = draw(2)
      ? randomQuery(models, draw).text
      : randomMutation({ architecture, names, tensors: [] }, draw);
    const text = hostileText(draw, honest);
    const startedMs = performance.now();
    const end = await runQuery(
      { ...sourceOf(models), saved, storedNetwork: () => Promise.resolve(stored) },
      text,
      { offset: 0, limit: 10, config },
      { steps: 50_000, ms: 10_000 },
    ).then(
      ({ derived = [], evaluation }) => {
        for (const { reason } of evaluation?.notMade ?? [])
          assert.doesNotMatch(reason, /[\p{Cc}\p{Cf}\p{Cs}\u2028]/u);
        for (const { reason = "" } of derived)
          assert.ok(
            !/[\p{Cc}\p{Cf}\p{Cs}\u2028]/u.test(reason) && reason.length < 1000,
            `${text}: ${reason}`,
          );
        return derived.some(({ network }) => network !== undefined) ? "derived" : "answer";
      },
      (error: unknown) => {
        assert.ok(
          isStemmaError(error) && codes.includes(error.code),
          `seed ${seed}: ${JSON.stringify(text)}: ${String(error)}`,
        );
        // The message on a model that there is not is another operation's.
        if (error.code.startsWith("QUERY_"))
          assert.doesNotMatch(error.message.replaceAll("\n", ""), /[\p{Cc}\p{Cf}\p{Cs}\u2028]/u);
        assert.ok(error.message.length < 3000);
        return error.code;
      },
    );
    assert.ok(performance.now() - startedMs < 20_000, `seed ${seed}: ${text.slice(0, 200)}`);
    ends.set(end, (ends.get(end) ?? 0) + 1);
  }
  return ends;
}
