/**
 * JPEG pictures, baseline and progressive, grey or in three colours. jpeg-js decodes them in integers and in products
 * and sums of doubles, without functions of Math but rounding, so every machine gets the same pixels. What it is given
 * is bounded here. A picture ends with its end marker: phones put films and second pictures behind it, which are not
 * read. The orientation that a camera notes is not applied.
 */
import decode from "jpeg-js/lib/decoder.js";
import { messageOf } from "../../error-text.js";
import { maxPixels, type DecodedPicture } from "./pixels.js";

/** More passes over the pixels than a program writes; each of them takes as long as a whole picture. */
const maxScans = 64;
const maxDecoderMb = 1024;

/** Markers that begin a frame which the decoder reads: baseline, extended and progressive. */
const frameMarkers = new Set([0xc0, 0xc1, 0xc2]);

type Refuse = (problem: string, cause?: unknown) => never;

export const isJpeg = (bytes: Uint8Array): boolean => bytes[0] === 0xff && bytes[1] === 0xd8;

/** @throws by `refuse` where the bytes are not a JPEG picture of at most maxPixels */
export function decodeJpeg(bytes: Uint8Array, refuse: Refuse): DecodedPicture {
  const { width, height, end } = frameOf(bytes, refuse);
  let decoded: { readonly width: number; readonly height: number; readonly data: Uint8Array };
  try {
    decoded = decode(bytes.subarray(0, end), {
      useTArray: true,
      formatAsRGBA: true,
      tolerantDecoding: false,
      maxResolutionInMP: maxPixels / 1e6,
      maxMemoryUsageInMB: maxDecoderMb,
    });
  } catch (cause) {
    return refuse(`its pixels cannot be decoded: ${messageOf(cause).slice(0, 120)}`, cause);
  }
  if (decoded.width !== width || decoded.height !== height)
    refuse(
      `it has ${decoded.width} × ${decoded.height} pixels, and its first frame says ${width} × ${height}`,
    );
  return { width, height, data: decoded.data, behindEnd: bytes.length - end };
}

interface Frame {
  readonly width: number;
  readonly height: number;
  /** The bytes up to the end marker, with it; all where it is missing. */
  readonly end: number;
}

/** Walks all segments and scans. */
function frameOf(bytes: Uint8Array, refuse: Refuse): Frame {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let size: Pick<Frame, "width" | "height"> | undefined;
  let scans = 0;
  let at = 2;
  for (;;) {
    if (bytes[at] === 0xff && bytes[at + 1] === 0xd9 && scans > 0) {
      at += 2;
      break;
    }
    // The decoder says what is missing where scans end without an end marker.
    if (at + 4 > bytes.length && scans > 0) {
      at = bytes.length;
      break;
    }
    if (at + 4 > bytes.length) refuse("it ends before its pixels");
    if (bytes[at] !== 0xff) refuse(`byte ${at} does not begin a segment`);
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at++;
      continue;
    }
    const length = view.getUint16(at + 2);
    if (length < 2 || at + 2 + length > bytes.length)
      refuse(`its segment at byte ${at} reaches beyond its end`);
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      if (!frameMarkers.has(marker) || length < 8 || view.getUint8(at + 4) !== 8 || size !== undefined)
        refuse(`its frame is of a kind that is not read (marker 0x${marker.toString(16)})`);
      size = sizeOf(view, at, refuse);
    }
    at += 2 + length;
    if (marker === 0xda) {
      if (++scans > maxScans) refuse(`it has more than ${maxScans} scans`);
      at = endOfScan(bytes, at);
    }
  }
  return size === undefined ? refuse("it has no frame before its pixels") : { ...size, end: at };
}

/** The size that the frame at a byte states. */
function sizeOf(view: DataView, at: number, refuse: Refuse): Pick<Frame, "width" | "height"> {
  const components = view.getUint8(at + 9);
  const [height, width] = [view.getUint16(at + 5), view.getUint16(at + 7)];
  if (components !== 1 && components !== 3) refuse(`it has ${components} colours, and 1 or 3 are read`);
  if (width * height === 0 || width * height > maxPixels)
    refuse(`it has ${width} × ${height} pixels, and at most ${maxPixels} are read`);
  return { width, height };
}

/** The byte of the first marker behind a scan's data that neither restarts it nor stands for a data byte. */
function endOfScan(bytes: Uint8Array, from: number): number {
  let at = from;
  for (; at + 1 < bytes.length; at++) {
    if (bytes[at] !== 0xff) continue;
    const next = bytes[at + 1] as number;
    if (next !== 0 && next !== 0xff && (next < 0xd0 || next > 0xd7)) return at;
  }
  return bytes.length;
}
