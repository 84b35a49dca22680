/** The layer classes that have bounds, and the function that compiles each. */
import {
  compileActivation,
  compileElu,
  compileLeakyRelu,
  compileRelu,
  compileSoftmax,
} from "./compile-activation.js";
import {
  compileConcatenate,
  compileCropping,
  compileElementwise,
  compileFlatten,
  compileIdentity,
  compileMean,
  compilePermute,
  compileRepeatVector,
  compileReshape,
  compileSum,
  compileUpSampling,
  compileZeroPadding,
} from "./compile-joining.js";
import {
  compileConvolution,
  compileDense,
  compileDepthwise,
  compileGlobalPooling,
  compileNormalization,
  compilePooling,
  compileSeparable,
} from "./compile-linear.js";
import type { CompileLayer } from "./layer-compiler.js";
import { AveragePoolingLayer, MaxPoolingLayer } from "./pooling-layers.js";

const compilers: Readonly<Record<string, CompileLayer>> = {
  Dense: compileDense,
  Conv1D: compileConvolution(1),
  Conv2D: compileConvolution(2),
  DepthwiseConv2D: compileDepthwise,
  SeparableConv2D: compileSeparable,
  MaxPooling1D: compilePooling(MaxPoolingLayer, 1),
  MaxPooling2D: compilePooling(MaxPoolingLayer, 2),
  AveragePooling1D: compilePooling(AveragePoolingLayer, 1),
  AveragePooling2D: compilePooling(AveragePoolingLayer, 2),
  GlobalMaxPooling1D: compileGlobalPooling(MaxPoolingLayer, 1),
  GlobalMaxPooling2D: compileGlobalPooling(MaxPoolingLayer, 2),
  GlobalAveragePooling1D: compileGlobalPooling(AveragePoolingLayer, 1),
  GlobalAveragePooling2D: compileGlobalPooling(AveragePoolingLayer, 2),
  BatchNormalization: compileNormalization,
  Activation: compileActivation,
  ReLU: compileRelu,
  LeakyReLU: compileLeakyRelu,
  ELU: compileElu,
  Softmax: compileSoftmax,
  Dropout: compileIdentity,
  SpatialDropout1D: compileIdentity,
  GaussianDropout: compileIdentity,
  GaussianNoise: compileIdentity,
  AlphaDropout: compileIdentity,
  Flatten: compileFlatten,
  Reshape: compileReshape,
  Permute: compilePermute,
  ZeroPadding2D: compileZeroPadding,
  Cropping2D: compileCropping,
  UpSampling2D: compileUpSampling,
  RepeatVector: compileRepeatVector,
  Add: compileSum,
  Average: compileMean,
  Multiply: compileElementwise("multiply"),
  Maximum: compileElementwise("maximum"),
  Minimum: compileElementwise("minimum"),
  Concatenate: compileConcatenate,
};

/** Returns undefined for a class without bounds. */
export function compilerOf(className: string): CompileLayer | undefined {
  return Object.hasOwn(compilers, className) ? compilers[className] : undefined;
}
