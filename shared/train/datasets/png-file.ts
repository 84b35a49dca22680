/**
 * PNG pictures (W3C PNG, third edition) as bytes of red, green, blue and opacity: every colour type, depth and
 * interlacing. Samples of 16 bits keep their high byte; those of fewer than 8 bits are spread over 0 to 255. Gamma,
 * colour profiles and text are not used. Integers only, but for inflating, which has one result. Pure.
 */
import { crc32Of } from "./png-crc.js";
import { inflateSync } from "node:zlib";
import { messageOf } from "../../error-text.js";
import { maxPixels, type DecodedPicture } from "./pixels.js";

const pngSignature = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

/** Numbers of a pixel by colour type. */
const channelsOf: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
const depthsOf: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};

export const isPng = (bytes: Uint8Array): boolean =>
  pngSignature.every((byte, index) => bytes[index] === byte);

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colour: number;
  readonly isInterlaced: boolean;
}

interface Chunks {
  readonly header: Header;
  /** Three bytes a colour. */
  readonly palette: Uint8Array;
  /** Opacity of palette colours, or the colour that is transparent. */
  readonly transparency: Uint8Array | undefined;
  readonly packed: Uint8Array;
  /** Bytes behind the last chunk, which are not read. */
  readonly behindEnd: number;
}

type Refuse = (problem: string, cause?: unknown) => never;

/** @throws by `refuse` where the bytes are not a PNG picture of at most maxPixels */
export function decodePng(bytes: Uint8Array, refuse: Refuse): DecodedPicture {
  const chunks = chunksOf(bytes, refuse);
  const { header } = chunks;
  const passes = passesOf(header);
  const rowBytes = (width: number): number =>
    Math.ceil((width * (channelsOf[header.colour] ?? 1) * header.depth) / 8);
  const length = passes.reduce((sum, pass) => sum + pass.height * (1 + rowBytes(pass.width)), 0);
  const rows = inflate(chunks.packed, length, refuse);
  const data = new Uint8Array(header.width * header.height * 4);
  let at = 0;
  for (const pass of passes) {
    const size = rowBytes(pass.width);
    const unit = Math.max(1, ((channelsOf[header.colour] ?? 1) * header.depth) >> 3);
    let above: Uint8Array = new Uint8Array(size);
    for (let y = 0; y < pass.height; y++) {
      const filter = rows[at] as number;
      const row = rows.subarray(at + 1, at + 1 + size);
      unfilter(filter, row, { above, unit, refuse });
      writeRow(chunks, row, { pass, y, data, refuse });
      above = row;
      at += 1 + size;
    }
  }
  return { width: header.width, height: header.height, data, behindEnd: chunks.behindEnd };
}

function chunksOf(bytes: Uint8Array, refuse: Refuse): Chunks {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (!isPng(bytes)) refuse("it does not begin as PNG files do");
  let header: Header | undefined;
  let palette = new Uint8Array();
  let transparency: Uint8Array | undefined;
  const packed: Uint8Array[] = [];
  let behindEnd = 0;
  for (let at = pngSignature.length; ;) {
    if (at + 12 > bytes.length) refuse(`it ends after ${bytes.length} bytes, before its last chunk`);
    const length = view.getUint32(at);
    const end = at + 12 + length;
    if (end > bytes.length) refuse(`a chunk of ${length} bytes reaches beyond its end`);
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    const content = bytes.subarray(at + 8, at + 8 + length);
    if (crc32Of(bytes.subarray(at + 4, at + 8 + length)) !== view.getUint32(end - 4))
      refuse(`its chunk ${JSON.stringify(type)} is damaged`);
    if (header === undefined && type !== "IHDR") refuse("its first chunk is not IHDR");
    if (type === "IHDR") header = headerOf(content, refuse);
    else if (type === "PLTE") palette = content.slice();
    else if (type === "tRNS") transparency = content;
    else if (type === "IDAT") packed.push(content);
    else if (type === "IEND") {
      behindEnd = bytes.length - end;
      break;
    } else if ((type.charCodeAt(0) & 0x20) === 0)
      refuse(`it needs the chunk ${JSON.stringify(type)}, which is unknown`);
    at = end;
  }
  if (header === undefined || packed.length === 0) return refuse("it has no pixels");
  if (header.colour === 3 && (palette.length === 0 || palette.length % 3 !== 0))
    refuse("its palette is missing");
  return { header, palette, transparency, packed: Buffer.concat(packed), behindEnd };
}

function headerOf(content: Uint8Array, refuse: Refuse): Header {
  if (content.length !== 13) refuse(`its header has ${content.length} bytes`);
  const view = new DataView(content.buffer, content.byteOffset, content.byteLength);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth = 0, colour = 0, compression, filter, interlace = 0] = content.subarray(8);
  if (width === 0 || height === 0 || width * height > maxPixels)
    refuse(`it has ${width} × ${height} pixels, and at most ${maxPixels} are read`);
  if (depthsOf[colour]?.includes(depth) !== true || compression !== 0 || filter !== 0 || interlace > 1)
    refuse(`its header has colour type ${colour}, depth ${depth}, interlacing ${interlace}`);
  return { width, height, depth, colour, isInterlaced: interlace === 1 };
}

function inflate(packed: Uint8Array, length: number, refuse: Refuse): Uint8Array {
  let rows: Uint8Array;
  try {
    rows = inflateSync(packed, { maxOutputLength: Math.max(1, length) });
  } catch (cause) {
    return refuse(`its pixels cannot be unpacked: ${messageOf(cause)}`, cause);
  }
  return rows.length === length
    ? rows
    : refuse(`it has ${rows.length} bytes of pixels, and ${length} are needed`);
}

/** One of the seven pictures of an interlaced one, or the whole: every `stepX`-th pixel from `x` on. */
interface Pass {
  readonly x: number;
  readonly y: number;
  readonly stepX: number;
  readonly stepY: number;
  readonly width: number;
  readonly height: number;
}

const adam7 = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

function passesOf({ width, height, isInterlaced }: Header): readonly Pass[] {
  if (!isInterlaced) return [{ x: 0, y: 0, stepX: 1, stepY: 1, width, height }];
  return adam7
    .map(([x, y, stepX, stepY]) => ({
      x,
      y,
      stepX,
      stepY,
      width: Math.ceil((width - x) / stepX),
      height: Math.ceil((height - y) / stepY),
    }))
    .filter((pass) => pass.width > 0 && pass.height > 0);
}

/** Adds to each byte what its filter predicts from the bytes to the left, above, and above to the left. */
function unfilter(
  filter: number,
  row: Uint8Array,
  { above, unit, refuse }: { readonly above: Uint8Array; readonly unit: number; readonly refuse: Refuse },
): void {
  if (filter > 4) refuse(`a row has the filter ${filter}`);
  if (filter === 0) return;
  for (let index = 0; index < row.length; index++) {
    const left = index < unit ? 0 : (row[index - unit] as number);
    const up = above[index] as number;
    const corner = index < unit ? 0 : (above[index - unit] as number);
    const predicted =
      filter === 1 ? left : filter === 2 ? up : filter === 3 ? (left + up) >> 1 : paeth(left, up, corner);
    row[index] = (row[index] as number) + predicted;
  }
}

function paeth(left: number, up: number, corner: number): number {
  const estimate = left + up - corner;
  const [toLeft, toUp, toCorner] = [
    Math.abs(estimate - left),
    Math.abs(estimate - up),
    Math.abs(estimate - corner),
  ];
  if (toLeft <= toUp && toLeft <= toCorner) return left;
  return toUp <= toCorner ? up : corner;
}

interface RowPlace {
  readonly pass: Pass;
  readonly y: number;
  readonly data: Uint8Array;
  readonly refuse: Refuse;
}

function writeRow(
  { header, palette, transparency }: Chunks,
  row: Uint8Array,
  { pass, y, data, refuse }: RowPlace,
): void {
  const { colour, depth, width } = header;
  const channels = channelsOf[colour] ?? 1;
  const clear = colour === 0 || colour === 2 ? transparency : undefined;
  /** A sample as it is in the file. */
  const sample = (index: number): number => {
    if (depth === 8) return row[index] as number;
    if (depth === 16) return ((row[2 * index] as number) << 8) | (row[2 * index + 1] as number);
    const bit = index * depth;
    return ((row[bit >> 3] as number) >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
  };
  const byte = (value: number): number =>
    depth === 16 ? value >> 8 : depth === 8 ? value : (value * 255) / ((1 << depth) - 1);
  const isClear = (first: number): boolean =>
    clear !== undefined &&
    clear.length >= 2 * channels &&
    Array.from({ length: channels }).every(
      (_, channel) =>
        sample(first + channel) ===
        (((clear[2 * channel] as number) << 8) | (clear[2 * channel + 1] as number)),
    );
  for (let x = 0; x < pass.width; x++) {
    const first = x * channels;
    const to = ((pass.y + y * pass.stepY) * width + pass.x + x * pass.stepX) * 4;
    if (colour === 3) {
      const index = sample(first);
      if (3 * index >= palette.length) refuse(`a pixel has the colour ${index}, which its palette lacks`);
      data.set(palette.subarray(3 * index, 3 * index + 3), to);
      data[to + 3] = transparency?.[index] ?? 255;
      continue;
    }
    const isGrey = channels < 3;
    for (let channel = 0; channel < 3; channel++)
      data[to + channel] = byte(sample(first + (isGrey ? 0 : channel)));
    data[to + 3] =
      channels === 2 || channels === 4 ? byte(sample(first + channels - 1)) : isClear(first) ? 0 : 255;
  }
}
