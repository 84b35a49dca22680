/** Keeps one segment file's samples in memory, without their values. Pure. */
import {
  decodeSegment,
  segmentSuffix,
  type Sample,
  type SampleSplit,
} from "../../shared/train/datasets/sample-format.js";
import { formOf, misfit, type FormOf, type SampleForm } from "../../shared/train/datasets/sample-form.js";
import { contentKey } from "../../shared/train/datasets/sample-split.js";
import type { SegmentInfo } from "./retention.js";

/** A stored sample without its values. */
export interface StoredSample {
  readonly id: string;
  readonly timeMs: number;
  readonly split: SampleSplit;
  readonly shape: readonly number[];
  readonly label?: readonly number[] | undefined;
  readonly targets?: FormOf["targets"];
  /** Identifies its input by its content. */
  readonly key: string;
}

export interface Segment extends SegmentInfo {
  /** The samples by index, from `firstIndex`; undefined for one that was removed. */
  readonly samples: (StoredSample | undefined)[];
}

export function segmentName(firstIndex: number): string {
  return `${String(firstIndex).padStart(12, "0")}${segmentSuffix}`;
}

/** Index of a segment's first sample by its file's name; undefined when it is not a segment. */
export function segmentFirstIndex(name: string): number | undefined {
  return /^\d{12}\.samples$/.test(name) ? Number(name.slice(0, 12)) : undefined;
}

export function storedSampleOf(sample: Sample): StoredSample {
  const { id, timeMs, split } = sample;
  return { id, timeMs, split, ...formOf(sample), label: sample.label, key: contentKey(sample) };
}

export function emptySegment(firstIndex: number): Segment {
  const name = segmentName(firstIndex);
  return { name, firstIndex, bytes: 0, endIndex: firstIndex, newestMs: 0, samples: [] };
}

/** A segment with more samples at its end. They are added to its list, which the old state shares. */
export function extendSegment(
  segment: Segment,
  bytes: number,
  samples: readonly (StoredSample | undefined)[],
): Segment {
  let { newestMs } = segment;
  for (const sample of samples) {
    segment.samples.push(sample);
    newestMs = Math.max(newestMs, sample?.timeMs ?? 0);
  }
  return {
    ...segment,
    bytes: segment.bytes + bytes,
    endIndex: segment.endIndex + samples.length,
    newestMs,
  };
}

/**
 * Reads a segment file. Another program may have written one whose checksums are correct but whose content is
 * not a sample; it is treated as damaged, not as a fatal error.
 */
export function readSegment(
  firstIndex: number,
  bytes: Uint8Array,
): { readonly segment: Segment; readonly torn: boolean } {
  const empty = emptySegment(firstIndex);
  try {
    const { records, torn } = decodeSegment(bytes);
    const samples = records.map((record) => record && storedSampleOf(record));
    return { segment: extendSegment(empty, bytes.length, samples), torn };
  } catch {
    return { segment: extendSegment(empty, bytes.length, []), torn: true };
  }
}

/** The samples of some segments that were not removed, with their indices, in order. */
export function* samplesIn(segments: readonly Segment[]): Generator<readonly [number, StoredSample]> {
  for (const { firstIndex, samples } of segments)
    for (let at = 0; at < samples.length; at++) {
      const sample = samples[at];
      if (sample !== undefined) yield [firstIndex + at, sample];
    }
}

/** The first sample that fits a form, or the first of all where the form leaves everything open. */
export function firstThatFits(segments: readonly Segment[], form: SampleForm): StoredSample | undefined {
  for (const { samples } of segments)
    for (const sample of samples)
      if (sample !== undefined && misfit(sample, form) === undefined) return sample;
  return undefined;
}
