/**
 * The type of the TensorFlow.js module; training code takes the module as a parameter and never imports it.
 * Types only.
 */
import type * as tfjs from "@tensorflow/tfjs";

export type TensorFlow = typeof tfjs;
export type TfTensor = tfjs.Tensor;
export type TfVariable = tfjs.Variable;
export type TfLayersModel = tfjs.LayersModel;
export type TfLayer = tfjs.layers.Layer;
