/**
 * Types of the TensorFlow.js module. Training code takes the module as a parameter; only backends/wasm.ts
 * imports it.
 */
import type * as tfjs from "@tensorflow/tfjs";

export type TensorFlow = typeof tfjs;
export type TfTensor = tfjs.Tensor;
export type TfVariable = tfjs.Variable;
export type TfLayersModel = tfjs.LayersModel;
export type TfLayer = tfjs.layers.Layer;
