/** Reads the figures that a training measured, by their names. Pure. */
import { decodeCanonical } from "../../../shared/model/canonical-json.js";
import { plainOf } from "../../../shared/provenance/plain-value.js";
import type { Measurement } from "../../../shared/train/training.js";
import type { Course, Courses } from "./query-source.js";

interface GrowingCourse extends Course {
  readonly iterations: number[];
  readonly values: (number | null)[];
}

/** The names of a measurement's members, as `stemma desc` shows them and as they are written. */
const members = [
  ["loss", "loss"],
  ["validation", "validation loss"],
  ["learningRate", "learning rate"],
] as const;

/** Empty where a device wrote something else. */
export function coursesOf(bytes: Uint8Array): Courses {
  const measurements = parsed(bytes);
  const courses = new Map<string, GrowingCourse>();
  const put = (name: string, iteration: number, value: unknown): void => {
    const course = courses.get(name) ?? { iterations: [], values: [] };
    courses.set(name, course);
    course.iterations.push(iteration);
    course.values.push(typeof value === "number" ? value : null);
  };
  for (const measurement of measurements) {
    const { iteration, metrics } = measurement;
    if (typeof iteration !== "number") continue;
    for (const [member, name] of members)
      if (measurement[member] != null) put(name, iteration, measurement[member]);
    if (typeof metrics === "object" && metrics !== null)
      for (const [name, value] of Object.entries(metrics)) put(name, iteration, value);
  }
  for (const [member, name] of members) {
    const course = courses.get(name);
    if (course !== undefined && !courses.has(member)) courses.set(member, course);
  }
  return courses;
}

function parsed(bytes: Uint8Array): readonly Partial<Measurement>[] {
  const value = plainValue(bytes);
  const all: readonly unknown[] = Array.isArray(value) ? value : [];
  return all.filter((each): each is Partial<Measurement> => typeof each === "object" && each !== null);
}

/** Trainings write canonical JSON, and devices may write any. */
function plainValue(bytes: Uint8Array): unknown {
  for (const read of [
    () => plainOf(decodeCanonical(bytes)),
    () => JSON.parse(Buffer.from(bytes).toString("utf8")) as unknown,
  ])
    try {
      return read();
    } catch {
      // The next way, or none.
    }
  return undefined;
}

export function sizeOfCourses(courses: Courses): number {
  let size = 0;
  for (const { values } of courses.values()) size += 100 + 16 * values.length;
  return size;
}
