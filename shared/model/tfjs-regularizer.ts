/** Writes Keras's regularizers L1 and L2 as the one that TensorFlow.js has, which adds both. Pure. */

/** The factor where none is stated. */
const defaultFactor = 0.01;

/** @param value of a setting whose name ends with `_regularizer` */
export function tfjsRegularizer(value: unknown): unknown {
  const { class_name: name, config } = (
    typeof value === "string" ? { class_name: value } : (value ?? {})
  ) as {
    readonly class_name?: string;
    readonly config?: Readonly<Record<string, unknown>>;
  };
  const factor = name?.toLowerCase();
  if (factor !== "l1" && factor !== "l2") return value;
  return { class_name: "L1L2", config: { l1: 0, l2: 0, [factor]: config?.[factor] ?? defaultFactor } };
}
