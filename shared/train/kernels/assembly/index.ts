// The exports of kernels.wasm. All functions work on raw pointers into the imported memory of TensorFlow.js's
// wasm backend; the module has no data and no memory of its own. Several threads may run it on one memory.
export { packPanels, matMulRows, matMulInPlace, matMulTransposed } from "./matmul";
export { convolveRows, convolutionFilterGradient, convolutionInputGradient, addBias, zero } from "./convolution";
export { depthwise, depthwiseFilterGradient, depthwiseInputGradient } from "./depthwise";
export { foldedShift, matMulRowsShifted, convolveRowsShifted, depthwiseShifted } from "./normalized";
export { maxPool, averagePool, maxPoolGradient } from "./pooling";
export { segmentSumFloat, segmentSumInt } from "./segment-sum";
export { clip, reluGradient, relu6Gradient, clipGradient } from "./activation";
export { rowsPerBlock, sumRows, scaleColumns } from "./columns";
export { batchNormBlocks, batchNormStatistics, batchNormFactor, batchNormApply, batchNormBlockSums, batchNormSums, batchNormCoefficients, batchNormGradient } from "./batch-norm";
export { sgdStep, momentumStep, adagradStep, rmsPropStep, rmsPropCentredStep, adamStep } from "./optimizer";
export { allFinite } from "./finite";
export { resizeGradient } from "./resize";
export { lstmStep, lstmStepGradient, gruGates, gruStep, gruStepGradient, gruGatesGradient, gruResetAfterStep, gruResetAfterStepGradient } from "./gates";
