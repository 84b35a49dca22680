/**
 * Registers the two sets of kernels. Those that tfjs 4.22 lacks or computes wrongly on wasm are always
 * registered, and faster ones unless the caller asks for tfjs's own.
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
import { registerNormalizedConvolution } from "./normalized-convolution.js";
import { registerOptimizerSteps } from "./optimizer-step.js";
import { registerPooling } from "./pooling.js";
import { registerRecurrent } from "./recurrent.js";
import { registerResizeGradients } from "./resize.js";
import { registerSegmentSum } from "./segment-sum.js";
import { registerSharing } from "./sharing.js";
import { registerSplitGradients } from "./split-gradients.js";

/**
 * Kernels that are missing or wrong in tfjs 4.22's wasm backend, or so slow that a comparison with it is
 * useless: its gradient of batch normalisation by tiling (40 % of a step) and its direct input gradient (25
 * %).
 */
export function registerMissingKernels(registry: KernelRegistry): void {
  registerFilterGradient(registry);
  registerDepthwiseGradients(registry);
  registerPooling(registry);
  registerSegmentSum(registry);
  registerMatMul(registry);
  registerResizeGradients(registry);
  registerFlatGradients(registry);
  registerSplitGradients(registry);
  registerEinsum(registry);
  registerActivations(registry);
  registerInputGradient(registry);
  registerConvolutionGradients(registry);
  registerGivenStatistics(registry);
}

/** Faster kernels for operations that tfjs computes correctly but slowly in training. */
export function registerFusedKernels(registry: KernelRegistry): void {
  registerConvolution(registry);
  registerDepthwise(registry);
  registerActivationGradients(registry);
  registerBatchNorm(registry);
  registerNormalizedConvolution(registry);
  registerColumnSums(registry);
  registerSharing(registry);
  registerOptimizerSteps(registry);
  registerRecurrent(registry);
}
