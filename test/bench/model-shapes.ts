/** The tensors of well-known networks, by shape: what the benchmarks of saving and recovering fill with numbers. */

export type Shape = readonly number[];

/** MobileNetV2's 262 tensors, as Keras counts them: 3.5 million float32, most of them in few large kernels. */
export function mobileNetShapes(): readonly (readonly number[])[] {
  const shapes: number[][] = [[3, 3, 3, 32], [32], [32], [32], [32]];
  const blocks: readonly (readonly [expand: number, from: number, to: number])[] = [
    [1, 32, 16],
    [6, 16, 24],
    [6, 24, 24],
    [6, 24, 32],
    [6, 32, 32],
    [6, 32, 32],
    [6, 32, 64],
    [6, 64, 64],
    [6, 64, 64],
    [6, 64, 64],
    [6, 64, 96],
    [6, 96, 96],
    [6, 96, 96],
    [6, 96, 160],
    [6, 160, 160],
    [6, 160, 160],
    [6, 160, 320],
  ];
  for (const [expand, from, to] of blocks) {
    const expanded = expand * from;
    if (expand > 1) shapes.push([1, 1, from, expanded], [expanded], [expanded], [expanded], [expanded]);
    shapes.push(
      [3, 3, expanded, 1],
      [expanded],
      [expanded],
      [expanded],
      [expanded],
      [1, 1, expanded, to],
      [to],
      [to],
      [to],
      [to],
    );
  }
  shapes.push([1, 1, 320, 1280], [1280], [1280], [1280], [1280], [1280, 1000], [1000]);
  return shapes;
}

export function byteLengthOf(shape: readonly number[]): number {
  return 4 * shape.reduce((product, size) => product * size, 1);
}

/** Blocks of each stage, and whether they are bottlenecks of three convolutions (He et al., table 1). */
const residualNetworks = {
  "resnet-18": { blocks: [2, 2, 2, 2], isBottleneck: false, trainable: 11_689_512 },
  "resnet-50": { blocks: [3, 4, 6, 3], isBottleneck: true, trainable: 25_557_032 },
  "resnet-152": { blocks: [3, 8, 36, 3], isBottleneck: true, trainable: 60_192_808 },
} as const;

/** A convolution without bias and the normalisation after it: scale, shift, mean and variance. */
const convolution = (size: number, from: number, to: number): Shape[] => [
  [to, from, size, size],
  ...Array.from({ length: 4 }, () => [to]),
];

/** A residual network as torchvision has it, with 1,000 classes. */
function residualShapes(name: keyof typeof residualNetworks): readonly Shape[] {
  const { blocks, isBottleneck, trainable } = residualNetworks[name];
  const shapes = convolution(7, 3, 64);
  let from = 64;
  for (const [stage, count] of blocks.entries()) {
    const width = 64 * 2 ** stage;
    const to = isBottleneck ? 4 * width : width;
    for (let block = 0; block < count; block++) {
      if (isBottleneck)
        shapes.push(
          ...convolution(1, from, width),
          ...convolution(3, width, width),
          ...convolution(1, width, to),
        );
      else shapes.push(...convolution(3, from, width), ...convolution(3, width, width));
      if (block === 0 && (stage > 0 || isBottleneck)) shapes.push(...convolution(1, from, to));
      from = to;
    }
  }
  shapes.push([1000, from], [1000]);
  return withTrainable(name, shapes, trainable);
}

/** Channels of an inception block (Szegedy et al. 2015, table 1), from its input on. */
const inceptions: readonly (readonly [
  from: number,
  one: number,
  threeReduced: number,
  three: number,
  fiveReduced: number,
  five: number,
  pooled: number,
])[] = [
  [192, 64, 96, 128, 16, 32, 32],
  [256, 128, 128, 192, 32, 96, 64],
  [480, 192, 96, 208, 16, 48, 64],
  [512, 160, 112, 224, 24, 64, 64],
  [512, 128, 128, 256, 24, 64, 64],
  [512, 112, 144, 288, 32, 64, 64],
  [528, 256, 160, 320, 32, 128, 128],
  [832, 256, 160, 320, 32, 128, 128],
  [832, 384, 192, 384, 48, 128, 128],
];

/**
 * GoogLeNet as torchvision has it, without the auxiliary classifiers: each convolution is normalised, and what the
 * paper calls 5 by 5 is 3 by 3.
 */
function googLeNetShapes(): readonly Shape[] {
  const shapes = [...convolution(7, 3, 64), ...convolution(1, 64, 64), ...convolution(3, 64, 192)];
  for (const [from, one, threeReduced, three, fiveReduced, five, pooled] of inceptions)
    shapes.push(
      ...convolution(1, from, one),
      ...convolution(1, from, threeReduced),
      ...convolution(3, threeReduced, three),
      ...convolution(1, from, fiveReduced),
      ...convolution(3, fiveReduced, five),
      ...convolution(1, from, pooled),
    );
  shapes.push([1000, 1024], [1000]);
  return withTrainable("googlenet", shapes, 6_624_904);
}

/** @throws where the shapes do not have so many numbers that are trained: of a normalised channel's four, two are */
function withTrainable(name: string, shapes: readonly Shape[], trainable: number): readonly Shape[] {
  const sum = (list: readonly Shape[]): number =>
    list.reduce((total, shape) => total + byteLengthOf(shape) / 4, 0);
  const moving = sum(shapes.slice(0, -1).filter((shape) => shape.length === 1)) / 2;
  if (sum(shapes) - moving !== trainable)
    throw new Error(`${name} has ${sum(shapes) - moving} trainable numbers`);
  return shapes;
}

const models = {
  "mobilenet-v2": mobileNetShapes,
  googlenet: googLeNetShapes,
  "resnet-18": () => residualShapes("resnet-18"),
  "resnet-50": () => residualShapes("resnet-50"),
  "resnet-152": () => residualShapes("resnet-152"),
} as const;
export type BenchModel = keyof typeof models;

/** The shapes of a network's tensors. @throws where the name is unknown, naming those that are known */
export function shapesOf(name: string): readonly Shape[] {
  if (!Object.hasOwn(models, name))
    throw new Error(`There is no network ${name} here. Use one of: ${Object.keys(models).join(", ")}.`);
  return models[name as BenchModel]();
}
