/**
 * The evaluation flow of MMlib (§4.1, figure 6): which model is made when, and from which. U1 is the initial model.
 * In the first phase each node fine-tunes it again and again (U3-1-1, U3-1-2 …); then U1 is trained further (U2, not
 * from a U3: MM2), and in the second phase each node fine-tunes that (U3-2-1 …). Pure.
 */
export interface FlowStep {
  /** As the paper names it: U1, U2, U3-PHASE-NUMBER. */
  readonly useCase: string;
  /** Index of the step whose model it was trained from; absent for U1. */
  readonly from?: number;
  /** Which node makes it; absent for what the server makes. */
  readonly node?: number;
  /** Models from U1 to this one, without U1. */
  readonly depth: number;
}

/** Moved by so much in an update, as fine-tunes with a small learning rate move weights. */
export const updateSize = 2e-4;

export const standardFlow = { nodes: 1, perPhase: 4 } as const;

/** In an order in which every model comes after the one it is trained from. */
export function flowSteps({
  nodes,
  perPhase,
}: {
  readonly nodes: number;
  /** Fine-tunes of each node in each of the two phases. */
  readonly perPhase: number;
}): readonly FlowStep[] {
  const steps: FlowStep[] = [{ useCase: "U1", depth: 0 }];
  const addPhase = (phase: 1 | 2, from: number): void => {
    for (let node = 0; node < nodes; node++) {
      let last = from;
      for (let number = 1; number <= perPhase; number++) {
        const { depth } = steps[last] as FlowStep;
        steps.push({ useCase: `U3-${phase}-${number}`, from: last, node, depth: depth + 1 });
        last = steps.length - 1;
      }
    }
  };
  addPhase(1, 0);
  steps.push({ useCase: "U2", from: 0, depth: 1 });
  addPhase(2, steps.length - 1);
  return steps;
}
