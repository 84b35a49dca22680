/** The space that `stemma bench nas` searches: its bytes are spread over many stages. */
import type { SearchSpace } from "../../server/learning/nas/search-space.js";

/** Stages on images of 7 by 7, all of one size, so that later ones fit whatever was chosen. */
const lateStages = 8;
const filters = 20;

/** 18,432 candidates of about 130 kB. */
export const benchSpace: SearchSpace = {
  format: 1,
  input: [28, 28, 1],
  classes: 10,
  stages: [
    { name: "stem", options: [[{ convolution: 8, kernel: 3 }], [{ convolution: 8, kernel: 5 }]] },
    { name: "first-pool", options: [[{ pool: "max" }], [{ pool: "average" }]] },
    { name: "widen", options: [[{ convolution: filters, kernel: 3 }]] },
    { name: "second-pool", options: [[{ pool: "max" }]] },
    ...Array.from({ length: lateStages }, (_, i) => ({
      name: `late-${i + 1}`,
      options: [[{ convolution: filters, kernel: 3 }], [{ residual: [{ convolution: filters, kernel: 3 }] }]],
    })),
    { name: "last-pool", options: [[{ pool: "max" }], [{ pool: "average" }], [{ pool: "global" }]] },
    { name: "dense", options: [[{ dense: 24 }], [{ dense: 24, activation: "tanh" }]] },
    { name: "rest", options: [[], [{ dropout: 0.2 }], [{ dense: 16 }]] },
  ],
};
