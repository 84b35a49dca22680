/**
 * Puts a graph of layer calls into canonical order. Inputs come first in the model's input order, then topological, by
 * the first visit of a walk from the outputs, in their order, through the input slots, in theirs. Slots and outputs are
 * ordered, so there are no ties, and neither configuration nor the order of a file matters.
 */
export interface OrderedCall {
  readonly className: string;
  readonly inputs: readonly { readonly layer: number }[];
}

/**
 * Indices of `calls` in canonical order; calls that lead to no output are left out (inputs never are). The
 * graph must not have cycles; the code that reads architectures refuses them.
 */
export function canonicalOrder(
  calls: readonly OrderedCall[],
  outputs: readonly { readonly layer: number }[],
): readonly number[] {
  const order: number[] = [];
  const state = new Uint8Array(calls.length); // 0 unseen, 1 being visited, 2 done
  calls.forEach((call, i) => {
    if (call.className === "InputLayer") {
      order.push(i);
      state[i] = 2;
    }
  });
  for (const output of outputs) {
    const stack: { readonly call: number; slot: number }[] = [];
    const enter = (call: number): void => {
      if (state[call] === 0) {
        state[call] = 1;
        stack.push({ call, slot: 0 });
      }
    };
    enter(output.layer);
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const input = calls[top.call]?.inputs[top.slot++];
      if (input !== undefined) {
        enter(input.layer);
        continue;
      }
      state[top.call] = 2;
      order.push(top.call);
      stack.pop();
    }
  }
  return order;
}
