/**
 * Depthwise convolution: its gradients, both missing in tfjs 4.22's wasm backend, and the forward pass.
 * tfjs's forward pass takes twice the time, and loses a NaN where the filter has one pixel or a clip is
 * fused.
 */
import { convolutionInfo, type ConvolutionAttributes } from "./convolution.js";
import { activate } from "./convolution-forward.js";
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

/**
 * Registers the gradients: by the filter: x [N,H,W,C], dy [N,OH,OW,C·M] → [FH,FW,C,M]. By the input: dy,
 * filter → [N,H,W,C].
 */
export function registerDepthwiseGradients(registry: KernelRegistry): void {
  registry.kernel<{ x: TensorInfo; dy: TensorInfo }, ConvolutionAttributes>(
    "DepthwiseConv2dNativeBackpropFilter",
    ({ inputs: { x, dy }, attrs }) => {
      const out = registry.backend.makeOutput(attrs.filterShape, "float32");
      const [height, width, channels, multiplier] = attrs.filterShape;
      const pixels = registry.tf.util.sizeFromShape(dy.shape) / Math.max(1, channels);
      const ranges: [number, number][] =
        multiplier === 1
          ? registry.cut(channels, { multipleOf: 16, work: pixels * height * width, most: registry.threads })
          : [[0, channels]];
      const pointers = [x, dy, out].map((info) => registry.pointer(info));
      const sizes = geometry(convolutionInfo(registry, x.shape, attrs.filterShape, attrs, true), multiplier);
      registry.run(
        "depthwiseFilterGradient",
        ranges.map(([first, count]) => [...pointers, first, count, ...sizes]),
      );
      return out;
    },
  );
  registry.kernel<{ dy: TensorInfo; filter: TensorInfo }, ConvolutionAttributes>(
    "DepthwiseConv2dNativeBackpropInput",
    ({ inputs: { dy, filter }, attrs }) => {
      const out = registry.backend.makeOutput(attrs.inputShape, "float32");
      const info = convolutionInfo(registry, attrs.inputShape, filter.shape, attrs, true);
      const multiplier = filter.shape[3]!;
      const [pout, pdy, pfilter] = [registry.pointer(out), registry.pointer(dy), registry.pointer(filter)];
      const row = info.inWidth * info.inChannels * 4;
      const dyImage = info.outHeight * info.outWidth * info.inChannels * multiplier * 4;
      runByRows(registry, "depthwiseInputGradient", { info, rows: info.inHeight, multiplier }, (part) => {
        const { image, images, first, count } = part;
        const pointers = [pout + (image * info.inHeight + first) * row, pdy + image * dyImage, pfilter];
        // The part's first row is row 0 for the kernel, as if the padding above were that much larger.
        const padInfo = { ...info.padInfo, top: info.padInfo.top + first };
        return { pointers, info: { ...info, batchSize: images, inHeight: count, padInfo } };
      });
      return out;
    },
  );
}

interface ForwardInputs extends Record<string, TensorInfo | undefined> {
  x: TensorInfo;
  filter: TensorInfo;
  bias?: TensorInfo;
  preluActivationWeights?: TensorInfo;
}

/** DepthwiseConv2dNative and FusedDepthwiseConv2D: x [N,H,W,C], filter [FH,FW,C,M] → [N,OH,OW,C·M]. */
export function registerDepthwise(registry: KernelRegistry): void {
  registry.kernel<ForwardInputs, ConvolutionAttributes>("DepthwiseConv2dNative", ({ inputs, attrs }) =>
    convolveDepthwise(registry, inputs, attrs),
  );
  registry.kernel<ForwardInputs, ConvolutionAttributes & { activation?: string; leakyreluAlpha?: number }>(
    "FusedDepthwiseConv2D",
    ({ inputs, attrs }) => {
      const out = convolveDepthwise(registry, inputs, attrs);
      const channels = out.shape[3]!;
      if (inputs.bias)
        registry.kernels.addBias(
          registry.pointer(out),
          registry.pointer(inputs.bias),
          registry.tf.util.sizeFromShape(out.shape) / channels,
          channels,
        );
      return activate(registry, out, attrs, inputs.preluActivationWeights);
    },
  );
}

/**
 * The operation after a convolution: y = min(max(y + shift, low), high); `shift` points to one number for each channel.
 */
export interface Epilogue {
  readonly shift: number;
  readonly low: number;
  readonly high: number;
}

/** The forward pass for x and filter as in registerDepthwise. */
export function convolveDepthwise(
  registry: KernelRegistry,
  { x, filter }: { readonly x: TensorInfo; readonly filter: TensorInfo },
  attrs: Omit<ConvolutionAttributes, "filterShape" | "inputShape">,
  epilogue?: Epilogue,
): TensorInfo {
  const info = convolutionInfo(registry, x.shape, filter.shape, attrs, true);
  const out = registry.backend.makeOutput(info.outShape, "float32");
  const multiplier = filter.shape[3]!;
  const [px, pout, pfilter] = [registry.pointer(x), registry.pointer(out), registry.pointer(filter)];
  const row = info.outWidth * info.inChannels * multiplier * 4;
  const xImage = info.inHeight * info.inWidth * info.inChannels * 4;
  const kernel = epilogue === undefined ? "depthwise" : "depthwiseShifted";
  const more = epilogue === undefined ? [] : [epilogue.shift, epilogue.low, epilogue.high];
  runByRows(registry, kernel, { info, rows: info.outHeight, multiplier }, (part) => {
    const { image, images, first, count } = part;
    const pointers = [px + image * xImage, pout + (image * info.outHeight + first) * row, pfilter, ...more];
    const padInfo = { ...info.padInfo, top: info.padInfo.top - first * info.strideHeight };
    return { pointers, info: { ...info, batchSize: images, outHeight: count, padInfo } };
  });
  return out;
}

type ConvolutionInfo = ReturnType<typeof convolutionInfo>;

/** Rows [first, first + count) of `images` images from `image` on. */
interface RowRange {
  readonly image: number;
  readonly images: number;
  readonly first: number;
  readonly count: number;
}

/** Runs a depthwise kernel on all threads: on images, or on rows of each where there are fewer images than threads. */
function runByRows(
  registry: KernelRegistry,
  kernel: "depthwise" | "depthwiseShifted" | "depthwiseInputGradient",
  {
    info,
    rows,
    multiplier,
  }: { readonly info: ConvolutionInfo; readonly rows: number; readonly multiplier: number },
  partOf: (range: RowRange) => { readonly pointers: readonly number[]; readonly info: ConvolutionInfo },
): void {
  const taps = info.filterHeight * info.filterWidth;
  const work = Math.max(info.inWidth, info.outWidth) * info.inChannels * multiplier * taps;
  const ranges: RowRange[] =
    info.batchSize >= registry.threads
      ? registry
          .cut(info.batchSize, { work: work * rows })
          .map(([image, images]) => ({ image, images, first: 0, count: rows }))
      : Array.from({ length: info.batchSize }, (_, image) =>
          registry
            .cut(rows, { work, most: registry.threads })
            .map(([first, count]) => ({ image, images: 1, first, count })),
        ).flat();
  registry.run(
    kernel,
    ranges.map((range) => {
      const part = partOf(range);
      return [...part.pointers, ...geometry(part.info, multiplier)];
    }),
    // Two pointers of four bytes for each element of the filter.
    registry.scratchForThreads(0, taps * 8),
  );
}

type Numbers15 = [
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
];

/** The sizes in the order in which the depthwise kernels take them. */
function geometry(info: ConvolutionInfo, multiplier: number): Numbers15 {
  return [
    info.batchSize,
    info.inHeight,
    info.inWidth,
    info.inChannels,
    multiplier,
    info.outHeight,
    info.outWidth,
    info.filterHeight,
    info.filterWidth,
    info.strideHeight,
    info.strideWidth,
    info.padInfo.top,
    info.padInfo.left,
    info.dilationHeight,
    info.dilationWidth,
  ];
}
