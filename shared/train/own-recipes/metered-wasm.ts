/**
 * Counts the work of a WebAssembly module inside it. Every call of a function and every turn of a loop takes one unit
 * of fuel, and so do 64 bytes that are copied or filled at once; a module that is out of fuel traps. What it computes
 * and where it ends is thereby the same on every machine. Part of the engine.
 */

/** The name of the exported global (i64) that holds the fuel that is left. */
export const fuelExport = "stemma-fuel";

const [typeSection, importSection, functionSection, globalSection, exportSection, codeSection] = [
  1, 2, 3, 6, 7, 10,
];
const i64 = 0x7e;
const op = { loop: 0x03, numeric: 0x45, lastNumeric: 0xc4, bulk: 0xfc } as const;

/**
 * Returns the module with its fuel counted.
 * @param units fuel that the module has when it is made
 * @throws Error for a module with instructions that are unknown here
 */
export function meteredWasm(module: Uint8Array, units: number): Uint8Array<ArrayBuffer> {
  const reader = new Reader(module, 8);
  const out = new Writer();
  out.bytes(module.subarray(0, 8));
  let parametersOf: readonly number[] = [];
  let functionTypes: readonly number[] = [];
  let fuel = 0;
  let hasGlobals = false;
  while (!reader.atEnd) {
    const id = reader.byte();
    const content = reader.slice(reader.u32());
    const section = new Reader(content, 0);
    switch (id) {
      case typeSection:
        parametersOf = section.vector(() => parameterCount(section));
        break;
      case importSection:
        fuel = importedGlobals(section);
        break;
      case functionSection:
        functionTypes = section.vector(() => section.u32());
        break;
    }
    if (id === globalSection) {
      const count = section.u32();
      fuel += count;
      hasGlobals = true;
      const mutable = 1;
      out.section(id, [...leb(count + 1), ...section.rest(), i64, mutable, 0x42, ...signedLeb(units), 0x0b]);
    } else if (id === exportSection) {
      const name = [...Buffer.from(fuelExport)];
      out.section(id, [
        ...leb(section.u32() + 1),
        ...section.rest(),
        ...leb(name.length),
        ...name,
        3,
        ...leb(fuel),
      ]);
    } else if (id === codeSection) {
      let index = 0;
      const bodies = section.vector(() =>
        meteredBody(
          section.slice(section.u32()),
          parametersOf[functionTypes[index++] as number] as number,
          fuel,
        ),
      );
      const code = new Writer();
      code.bytes(leb(bodies.length));
      for (const body of bodies) {
        code.bytes(leb(body.length));
        code.bytes(body);
      }
      out.section(id, code.result());
    } else out.section(id, content);
  }
  if (!hasGlobals) throw unknown("form: it has no globals");
  return out.result();
}

function parameterCount(section: Reader): number {
  if (section.byte() !== 0x60) throw unknown("type");
  const parameters = section.vector(() => section.byte());
  section.vector(() => section.byte());
  return parameters.length;
}

function importedGlobals(section: Reader): number {
  let globals = 0;
  section.vector(() => {
    section.slice(section.u32());
    section.slice(section.u32());
    const kind = section.byte();
    if (kind === 0) section.u32();
    else if (kind === 1 || kind === 2) {
      if (kind === 1) section.byte();
      if ((section.byte() & 1) === 1) section.u32();
      section.u32();
    } else if (kind === 3) {
      section.slice(2);
      globals++;
    } else throw unknown("import");
  });
  return globals;
}

/** A function's body with the charges in it, and one more local for the sizes of copies. */
function meteredBody(body: Uint8Array, parameters: number, fuel: number): Uint8Array {
  const reader = new Reader(body, 0);
  const out = new Writer();
  const groups = reader.u32();
  out.bytes(leb(groups + 1));
  let locals = parameters;
  for (let group = 0; group < groups; group++) {
    const from = reader.at;
    locals += reader.u32();
    reader.byte();
    out.bytes(body.subarray(from, reader.at));
  }
  out.bytes([1, 0x7f]);
  const charge = chargeOf(fuel, [0x42, 1]);
  out.bytes(charge);
  while (!reader.atEnd) {
    const from = reader.at;
    const code = reader.byte();
    const bulk = skipImmediates(code, reader);
    // memory.copy and memory.fill: the size is on top of the stack.
    if (bulk === 10 || bulk === 11) {
      out.bytes([0x22, ...leb(locals)]);
      out.bytes(chargeOf(fuel, [0x20, ...leb(locals), 0xad, 0x42, 6, 0x88]));
    }
    out.bytes(body.subarray(from, reader.at));
    if (code === op.loop) out.bytes(charge);
  }
  return out.result();
}

/** Takes units of fuel, which instructions put on the stack, and traps where none is left. */
const chargeOf = (fuel: number, units: readonly number[]): readonly number[] => [
  ...[0x23, ...leb(fuel)],
  ...units,
  ...[0x7d, 0x24, ...leb(fuel)],
  ...[0x23, ...leb(fuel), 0x42, 0, 0x53, 0x04, 0x40, 0x00, 0x0b],
];

/** Reads what follows an instruction's code; returns the second code of a bulk one. */
function skipImmediates(code: number, reader: Reader): number | undefined {
  if (code === 0x02 || code === op.loop || code === 0x04) reader.u32();
  else if (code === 0x0e) {
    reader.vector(() => reader.u32());
    reader.u32();
  } else if (code === 0x1c) reader.vector(() => reader.byte());
  else if (code === 0x0c || code === 0x0d || code === 0x10 || (code >= 0x20 && code <= 0x26)) reader.u32();
  else if (code === 0x11 || (code >= 0x28 && code <= 0x3e)) {
    reader.u32();
    reader.u32();
  } else if (code >= 0x3f && code <= 0x42) reader.u32();
  else if (code === 0x43) reader.slice(4);
  else if (code === 0x44) reader.slice(8);
  else if (code === op.bulk) return skipBulk(reader);
  else if (code > 0x01 && ![0x05, 0x0b, 0x0f, 0x1a, 0x1b].includes(code))
    if (code < op.numeric || code > op.lastNumeric) throw unknown(`instruction 0x${code.toString(16)}`);
  return undefined;
}

function skipBulk(reader: Reader): number {
  const code = reader.u32();
  if (code > 11) throw unknown(`instruction 0xfc ${code}`);
  for (let left = code === 8 || code === 10 ? 2 : code > 8 ? 1 : 0; left > 0; left--) reader.u32();
  return code;
}

const unknown = (what: string): Error => new Error(`The interpreter's WebAssembly has an unknown ${what}.`);

/** A number ≥ 0 in signed LEB128, of up to 53 bits. */
function signedLeb(value: number): readonly number[] {
  const bytes = [];
  let left = value;
  for (; left > 0x3f; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  return [...bytes, left];
}

/** An unsigned number in LEB128. */
function leb(value: number): readonly number[] {
  const bytes = [];
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}

class Reader {
  constructor(
    private readonly source: Uint8Array,
    public at: number,
  ) {}

  get atEnd(): boolean {
    return this.at >= this.source.length;
  }

  byte(): number {
    const byte = this.source[this.at++];
    if (byte === undefined) throw unknown("end");
    return byte;
  }

  /** A number in LEB128. Signed and 64-bit ones are only passed over: their value is then wrong. */
  u32(): number {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value >>> 0;
    }
  }

  slice(length: number): Uint8Array {
    this.at += length;
    if (this.at > this.source.length) throw unknown("end");
    return this.source.subarray(this.at - length, this.at);
  }

  rest(): Uint8Array {
    return this.slice(this.source.length - this.at);
  }

  vector<T>(item: () => T): readonly T[] {
    return Array.from({ length: this.u32() }, item);
  }
}

class Writer {
  #bytes = new Uint8Array(64);
  #length = 0;

  bytes(more: ArrayLike<number>): void {
    if (this.#length + more.length > this.#bytes.length) {
      const grown = new Uint8Array(2 * (this.#length + more.length));
      grown.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = grown;
    }
    this.#bytes.set(more, this.#length);
    this.#length += more.length;
  }

  section(id: number, content: ArrayLike<number>): void {
    this.bytes([id, ...leb(content.length)]);
    this.bytes(content);
  }

  result(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }
}
