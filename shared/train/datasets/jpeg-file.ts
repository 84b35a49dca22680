/**
 * JPEG pictures, baseline and progressive, grey or in three colours. jpeg-js decodes them in integers and in products
 * and sums of doubles, without functions of Math but rounding, so every machine gets the same pixels. What it is given
 * is bounded here. The orientation that a camera notes is not applied.
 */
import decode from "jpeg-js/lib/decoder.js";
import { messageOf } from "../../error-text.js";
import { maxPixels, type Pixels } from "./pixels.js";

/** More passes over the pixels than a program writes; each of them takes as long as a whole picture. */
const maxScans = 64;
const maxDecoderMb = 1024;

/** Markers that begin a frame which the decoder reads: baseline, extended and progressive. */
const frameMarkers = new Set([0xc0, 0xc1, 0xc2]);

type Refuse = (problem: string, cause?: unknown) => never;

export const isJpeg = (bytes: Uint8Array): boolean => bytes[0] === 0xff && bytes[1] === 0xd8;

/** @throws by `refuse` where the bytes are not a JPEG picture of at most maxPixels */
export function decodeJpeg(bytes: Uint8Array, refuse: Refuse): Pixels {
  const { width, height } = frameOf(bytes, refuse);
  let decoded: { readonly width: number; readonly height: number; readonly data: Uint8Array };
  try {
    decoded = decode(bytes, {
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
  return { width, height, data: decoded.data };
}

/** Walks the segments up to the first scan, and counts all scans. */
function frameOf(bytes: Uint8Array, refuse: Refuse): { readonly width: number; readonly height: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let frame: { readonly width: number; readonly height: number } | undefined;
  let at = 2;
  for (;;) {
    if (at + 4 > bytes.length) refuse("it ends before its pixels");
    if (bytes[at] !== 0xff) refuse(`byte ${at} does not begin a segment`);
    const marker = bytes[at + 1] as number;
    if (marker === 0xff) {
      at++;
      continue;
    }
    if (marker === 0xda) break;
    const length = view.getUint16(at + 2);
    if (length < 2 || at + 2 + length > bytes.length)
      refuse(`its segment at byte ${at} reaches beyond its end`);
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      if (!frameMarkers.has(marker) || length < 8 || view.getUint8(at + 4) !== 8 || frame !== undefined)
        refuse(`its frame is of a kind that is not read (marker 0x${marker.toString(16)})`);
      const components = view.getUint8(at + 9);
      frame = { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
      if (components !== 1 && components !== 3) refuse(`it has ${components} colours, and 1 or 3 are read`);
      if (frame.width * frame.height === 0 || frame.width * frame.height > maxPixels)
        refuse(`it has ${frame.width} × ${frame.height} pixels, and at most ${maxPixels} are read`);
    }
    at += 2 + length;
  }
  let scans = 0;
  for (let index = at; index + 1 < bytes.length; index++)
    if (bytes[index] === 0xff && bytes[index + 1] === 0xda) scans++;
  if (scans > maxScans) refuse(`it has ${scans} scans, and at most ${maxScans} are read`);
  return frame ?? refuse("it has no frame before its pixels");
}
