/** Which kernels go in place: what tfjs 4.22 lacks or gets wrong on wasm always, the fast ones where asked. */
import { registerFilterGradient, registerInputGradient } from "./convolution.js";
import { registerDepthwiseGradients } from "./depthwise.js";
import type { KernelRoom } from "./kernel-room.js";
import { registerMatMul } from "./matmul.js";
import { registerMaxPoolGradient } from "./pooling.js";
import { registerSegmentSum } from "./segment-sum.js";

/** Missing or wrong in tfjs 4.22's wasm backend. */
export function registerMissingKernels(room: KernelRoom): void {
  registerFilterGradient(room);
  registerDepthwiseGradients(room);
  registerMaxPoolGradient(room);
  registerSegmentSum(room);
  registerMatMul(room);
}

/** Right in tfjs, but slow in training. */
export function registerFusedKernels(room: KernelRoom): void {
  registerInputGradient(room);
}
