/**
 * Which kernels go in place: what tfjs 4.22 lacks or gets wrong on wasm always, the fast ones where asked.
 */
import { registerActivationGradients, registerActivations } from "./activation.js";
import { registerBatchNorm, registerGivenStatistics } from "./batch-norm.js";
import { registerColumnSums } from "./columns.js";
import {
  registerConvolutionGradients,
  registerFilterGradient,
  registerInputGradient,
} from "./convolution.js";
import { registerConvolution } from "./convolution-forward.js";
import { registerDepthwise, registerDepthwiseGradients } from "./depthwise.js";
import { registerEinsum } from "./einsum.js";
import { registerFlatGradients } from "./flat-gradients.js";
import type { KernelRegistry } from "./kernel-registry.js";
import { registerMatMul } from "./matmul.js";
import { registerOptimizerSteps } from "./optimizer-step.js";
import { registerPooling } from "./pooling.js";
import { registerRecurrent } from "./recurrent.js";
import { registerResizeGradients } from "./resize.js";
import { registerSegmentSum } from "./segment-sum.js";
import { registerSharing } from "./sharing.js";
import { registerSplitGradients } from "./split-gradients.js";

/**
 * Missing or wrong in tfjs 4.22's wasm backend, or there in a form that nobody would measure against:
 * the gradient of batch normalisation by tiling (40 % of a step), the direct input gradient (25 %).
 */
export function registerMissingKernels(room: KernelRegistry): void {
  registerFilterGradient(room);
  registerDepthwiseGradients(room);
  registerPooling(room);
  registerSegmentSum(room);
  registerMatMul(room);
  registerResizeGradients(room);
  registerFlatGradients(room);
  registerSplitGradients(room);
  registerEinsum(room);
  registerActivations(room);
  registerInputGradient(room);
  registerConvolutionGradients(room);
  registerGivenStatistics(room);
}

/** Right in tfjs, but slow in training. */
export function registerFusedKernels(room: KernelRegistry): void {
  registerConvolution(room);
  registerDepthwise(room);
  registerActivationGradients(room);
  registerBatchNorm(room);
  registerColumnSums(room);
  registerSharing(room);
  registerOptimizerSteps(room);
  registerRecurrent(room);
}
