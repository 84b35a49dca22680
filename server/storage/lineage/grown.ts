/** Makes room in typed arrays that are indexed by numbers which grow. Pure. */

interface Growing {
  readonly length: number;
  set(from: this): void;
}

/** The array itself if it has `length` elements; else a copy with at least twice as many, which begin as 0. */
export function grown<Values extends Growing>(values: Values, length: number): Values {
  if (length <= values.length) return values;
  const create = values.constructor as new (length: number) => Values;
  const larger = new create(Math.max(length, 2 * values.length));
  larger.set(values);
  return larger;
}
