/**
 * The part of Python's pickle language that a PyTorch state dict is written in (CPython, Lib/pickletools.py). A pickle
 * is a program, and unpickling runs what it names; this reader runs nothing: it knows the functions that make a tensor
 * by their names and builds a description instead, and refuses every other name.
 */
import { quoted } from "../form.js";
import { Dict, Global, type PickleValue } from "./pickle-values.js";
import { callKnown, isKnownGlobal, storageOf } from "./known-globals.js";

export type PickleFail = (reason: string) => never;

/** More operations than any state dict of 60,000 tensors has; bounds the memory of what is built. */
const maxOperations = 3_000_000;

type Step = (machine: Machine) => void;

/** Reads a pickle; its last value. @param fail throws the caller's error */
export function readTensorPickle(bytes: Buffer, fail: PickleFail): PickleValue {
  const machine = new Machine(bytes, fail);
  for (let count = 0; ; count++) {
    if (count === maxOperations) return fail(`its description has more than ${maxOperations} operations`);
    const code = machine.byte();
    if (code === 0x2e) return machine.pop();
    const step = steps.get(code);
    if (step === undefined)
      return fail(
        `its description uses the pickle operation 0x${code.toString(16)}, which no state dict needs`,
      );
    step(machine);
  }
}

/** A stack machine: values, the stacks below open marks, and the memo. */
class Machine {
  #at = 0;
  #stack: PickleValue[] = [];
  readonly #below: PickleValue[][] = [];
  readonly #memo = new Map<number, PickleValue>();

  constructor(
    readonly bytes: Buffer,
    readonly fail: PickleFail,
  ) {}

  /** The next bytes of the program. */
  take(count: number): Buffer {
    if (count > this.bytes.length - this.#at) return this.fail("its description ends too early");
    this.#at += count;
    return this.bytes.subarray(this.#at - count, this.#at);
  }
  byte(): number {
    return this.take(1).readUInt8(0);
  }
  line(): string {
    const end = this.bytes.indexOf(0x0a, this.#at);
    if (end < 0) return this.fail("its description ends too early");
    const text = this.take(end - this.#at).toString("utf8");
    this.#at++;
    return text;
  }

  push(value: PickleValue): void {
    this.#stack.push(value);
  }
  pop(): PickleValue {
    return this.#stack.length === 0
      ? this.fail("its description is damaged: a value is missing")
      : (this.#stack.pop() as PickleValue);
  }
  top(): PickleValue {
    const value = this.pop();
    this.push(value);
    return value;
  }
  mark(): void {
    this.#below.push(this.#stack);
    this.#stack = [];
  }
  /** The values since the last mark. */
  popMark(): PickleValue[] {
    const values = this.#stack;
    this.#stack = this.#below.pop() ?? this.fail("its description is damaged: a mark is missing");
    return values;
  }
  put(index: number): void {
    this.#memo.set(index, this.top());
  }
  get(index: number): void {
    if (!this.#memo.has(index)) this.fail("its description is damaged: it uses a value that is not there");
    this.push(this.#memo.get(index) as PickleValue);
  }
}

/** PyTorch writes protocol 2, and reads no newer one in safety itself. */
function requireProtocol(protocol: number, { fail }: Machine): void {
  if (protocol > 2) fail(`its description is of pickle protocol ${protocol}, and only 2 is read`);
}

function pushGlobal(machine: Machine, path: string): void {
  if (!isKnownGlobal(path))
    machine.fail(
      `it names ${quoted(path)}, which is not part of a plain state dict, and nothing of a file is executed`,
    );
  machine.push(new Global(path));
}

/** A whole number of up to eight bytes, two's complement, least byte first. */
function long(machine: Machine): number {
  const bytes = machine.take(machine.byte());
  if (bytes.length > 8) return machine.fail("its description has a number of more than eight bytes");
  const value = bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const signed = Number(BigInt.asIntN(8 * bytes.length, value));
  return Number.isSafeInteger(signed) ? signed : machine.fail("its description has a number beyond 2^53");
}

function setItems(machine: Machine, items: readonly PickleValue[]): void {
  const dict = machine.top();
  if (!(dict instanceof Dict) || items.length % 2 !== 0)
    return machine.fail("its description is damaged: it sets items of what is not a dict");
  for (let i = 0; i < items.length; i += 2) {
    const key = items[i];
    if (typeof key !== "string" && typeof key !== "number")
      return machine.fail("it has a dict with a key that is neither text nor number");
    dict.items.set(key, items[i + 1] as PickleValue);
  }
}

function append(machine: Machine, items: readonly PickleValue[]): void {
  const list = machine.top();
  if (!Array.isArray(list))
    return machine.fail("its description is damaged: it appends to what is not a list");
  for (const item of items) list.push(item);
}

/** An object's attributes, such as the versions of a state dict's modules; nothing reads them. */
function build(machine: Machine): void {
  machine.pop();
  if (!(machine.top() instanceof Dict)) machine.fail("it sets attributes of what is not a dict");
}

function reduce(machine: Machine): void {
  const parameters = machine.pop();
  const callee = machine.pop();
  if (!(callee instanceof Global) || !Array.isArray(parameters))
    return machine.fail("its description calls what is not a function");
  machine.push(callKnown(callee.path, parameters, machine.fail));
}

/** Removes `count` values and pushes them as a tuple. */
const tuple =
  (count: number): Step =>
  (machine) => {
    const values: PickleValue[] = [];
    for (let i = 0; i < count; i++) values.unshift(machine.pop());
    machine.push(values);
  };

function text(machine: Machine): string {
  return machine.take(machine.take(4).readUInt32LE(0)).toString("utf8");
}

const steps: ReadonlyMap<number, Step> = new Map<number, Step>([
  [0x80, (m) => requireProtocol(m.byte(), m)], // PROTO
  [0x28, (m) => m.mark()], // MARK
  [0x30, (m) => void m.pop()], // POP
  [0x7d, (m) => m.push(new Dict())], // EMPTY_DICT
  [0x5d, (m) => m.push([])], // EMPTY_LIST
  [0x29, (m) => m.push([])], // EMPTY_TUPLE
  [0x74, (m) => m.push(m.popMark())], // TUPLE
  [0x85, tuple(1)],
  [0x86, tuple(2)],
  [0x87, tuple(3)],
  [0x4e, (m) => m.push(null)], // NONE
  [0x88, (m) => m.push(true)], // NEWTRUE
  [0x89, (m) => m.push(false)], // NEWFALSE
  [0x4b, (m) => m.push(m.byte())], // BININT1
  [0x4d, (m) => m.push(m.take(2).readUInt16LE(0))], // BININT2
  [0x4a, (m) => m.push(m.take(4).readInt32LE(0))], // BININT
  [0x8a, (m) => m.push(long(m))], // LONG1
  [0x47, (m) => m.push(m.take(8).readDoubleBE(0))], // BINFLOAT
  [0x58, (m) => m.push(text(m))], // BINUNICODE
  [0x71, (m) => m.put(m.byte())], // BINPUT
  [0x72, (m) => m.put(m.take(4).readUInt32LE(0))], // LONG_BINPUT
  [0x68, (m) => m.get(m.byte())], // BINGET
  [0x6a, (m) => m.get(m.take(4).readUInt32LE(0))], // LONG_BINGET
  [0x63, (m) => pushGlobal(m, `${m.line()}.${m.line()}`)], // GLOBAL
  [0x51, (m) => m.push(storageOf(m.pop(), m.fail))], // BINPERSID
  [0x52, reduce],
  [0x62, build],
  // SETITEM
  [
    0x73,
    (m) => {
      const value = m.pop();
      setItems(m, [m.pop(), value]);
    },
  ],
  [0x75, (m) => setItems(m, m.popMark())], // SETITEMS
  [0x61, (m) => append(m, [m.pop()])], // APPEND
  [0x65, (m) => append(m, m.popMark())], // APPENDS
]);
