/**
 * Decodes mutated envelopes and prints the outcome as JSON. Runs in its own process, so that its memory can be
 * measured. Arguments: seed, count.
 */
import fc from "fast-check";
import { isStemmaError } from "../../../../shared/errors.js";
import { decodeEnvelope, encodeEnvelope } from "../../../../shared/wire/codec.js";
import { maxMessageBytes } from "../../../../shared/wire/limits.js";
import { envelopes } from "../../../property/shared/wire/envelope-arbitraries.js";
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import { mutate } from "./mutate.js";

const [seed, count] = process.argv.slice(2).map(Number) as [number, number];
const random = seededNumbers(seed);
const samples = fc.sample(envelopes, { numRuns: 300, seed }).map((envelope) => encodeEnvelope(envelope));
/**
 * Bytes that make a decoder without bounds allocate: thousands of empty entries, deep groups, huge lengths.
 */
const bombs = [
  Buffer.concat([
    Buffer.of(8, 1, 0x72),
    varint(maxMessageBytes - 100),
    Buffer.alloc(maxMessageBytes - 100, Buffer.of(0x22, 0x00)),
  ]),
  Buffer.concat([
    Buffer.of(8, 1, 0x72),
    varint(60_000),
    Buffer.of(0x52),
    varint(59_990),
    Buffer.alloc(59_990, 1),
  ]),
  Buffer.alloc(maxMessageBytes, 0x0b),
  Buffer.alloc(maxMessageBytes, Buffer.of(0x72, 0x00)),
  Buffer.concat([Buffer.of(8, 1, 0x8a, 1), varint(2 ** 31)]),
  Buffer.alloc(maxMessageBytes + 1, 8),
  Buffer.alloc(0),
  Buffer.alloc(maxMessageBytes, 0xff),
];
function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return Buffer.from([...bytes, value]);
}

const outcome = { decoded: 0, refused: 0, untyped: [] as string[], mostGrownMiB: 0 };
function decode(bytes: Uint8Array): void {
  try {
    decodeEnvelope(bytes);
    outcome.decoded++;
  } catch (error) {
    if (isStemmaError(error) && /^(ENVELOPE_|PROTOCOL_)/.test(error.code)) outcome.refused++;
    else if (outcome.untyped.length < 5)
      outcome.untyped.push(`${String(error)} ${Buffer.from(bytes).toString("hex").slice(0, 400)}`);
  }
}
for (const sample of samples) decode(sample);
const before = process.memoryUsage().rss;
for (let at = 0; at < count; at++) {
  if (at % 50 === 0) for (const bomb of bombs) decode(bomb);
  decode(
    mutate(
      samples[at % samples.length] as Uint8Array,
      samples[Math.floor(random() * samples.length)] as Uint8Array,
      random,
    ),
  );
  if (at % 500 === 0)
    outcome.mostGrownMiB = Math.max(outcome.mostGrownMiB, (process.memoryUsage().rss - before) / 2 ** 20);
}
console.log(JSON.stringify(outcome));
