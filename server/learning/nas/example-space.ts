/** The space of the documentation's search: small networks for images of 28 by 28 with ten classes, such as digits. */
import type { SearchSpace } from "./search-space.js";

type Option = SearchSpace["stages"][number]["options"][number];

const convolutions = (filters: readonly number[]): Option[] =>
  filters.flatMap((count) => [3, 5].map((kernel): Option => [{ convolution: count, kernel }]));

/** An example of a search space, with 5,184 candidates. */
export const exampleSpace: SearchSpace = {
  format: 1,
  input: [28, 28, 1],
  classes: 10,
  stages: [
    { name: "stem", options: convolutions([4, 8]) },
    { name: "first-pool", options: [[{ pool: "max" }], [{ pool: "average" }]] },
    {
      name: "first",
      options: [...convolutions([8, 12]), [{ residual: [{ depthwise: 3 }] }], []],
    },
    { name: "second-pool", options: [[{ pool: "max" }], [{ pool: "average" }]] },
    {
      name: "second",
      options: [...convolutions([12, 16]), [{ residual: [{ depthwise: 3 }] }], []],
    },
    { name: "dense", options: [[{ dense: 24 }], [{ dense: 48 }], [{ dense: 48, activation: "tanh" }]] },
    { name: "rest", options: [[], [{ dense: 24 }], [{ dropout: 0.2 }]] },
  ],
};
