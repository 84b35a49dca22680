/**
 * Splits the rows of a file by ratio and seed. The order draws from a stream of its own, so that it depends on its seed
 * and the number of rows alone. Pure.
 */
import { StemmaError } from "../../errors.js";
import { Streams } from "../../random/streams.js";
import type { SampleSet } from "./dataset.js";
import { splitByTime, type ParameterReader, type SplitSizes } from "./sample-set.js";

export interface RowSplit extends SplitSizes {
  readonly by: "seed" | "order";
  readonly seed: number;
}

/**
 * Reads the parameters split, splitSeed, heldOutThousandths and validationThousandths.
 * @throws RECIPE_PARAMETERS_INVALID
 */
export function rowSplitOf(reader: string, parameters: ParameterReader): RowSplit {
  const split: RowSplit = {
    by: parameters.oneOf("split", "seed", ["seed", "order"] as const),
    seed: parameters.whole("splitSeed", 1, 0, Number.MAX_SAFE_INTEGER),
    heldOutThousandths: parameters.whole("heldOutThousandths", 250, 0, 900),
    validationThousandths: parameters.whole("validationThousandths", 150, 0, 900),
  };
  if (split.heldOutThousandths + split.validationThousandths > 990)
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The dataset ${reader}: heldOutThousandths and validationThousandths leave less than 10 thousandths to train ` +
        "on. Correct the dataset's parameters.",
      { reader },
    );
  return split;
}

export type RowParts<Row> = Readonly<Record<"train" | "validation" | "heldOut", readonly Row[]>>;

export function splitRows<Row>(rows: readonly Row[], split: RowSplit): RowParts<Row> {
  const { trainEnd, validationEnd } = splitByTime(
    rows.length,
    split.heldOutThousandths,
    split.validationThousandths,
  );
  const order =
    split.by === "order"
      ? rows
      : Array.from(
          new Streams(String(split.seed), 0).stream("split").permutation(rows.length),
          (index) => rows[index] as Row,
        );
  return {
    train: order.slice(0, trainEnd),
    validation: order.slice(trainEnd, validationEnd),
    heldOut: order.slice(validationEnd),
  };
}

/** The parts that a split goes without. */
export function partsWithout(split: RowSplit): NonNullable<SampleSet["withoutParts"]> {
  return [
    ...(split.validationThousandths === 0 ? (["validation"] as const) : []),
    ...(split.heldOutThousandths === 0 ? (["heldOut"] as const) : []),
  ];
}
