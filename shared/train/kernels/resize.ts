/**
 * Gradients of resizing images (upsampling layers). In tfjs 4.22 the gradients of the wasm backend confuse
 * height and width, and those of the cpu backend confuse the images of a batch.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface ResizeAttributes {
  readonly alignCorners: boolean;
  readonly halfPixelCenters?: boolean;
}
/** The two input pixels that an output pixel was read from; `weight` is the weight of the second one. */
interface Source {
  readonly first: number;
  readonly second: number;
  readonly weight: number;
}

/** dy [N,OH,OW,C], images [N,H,W,C] → [N,H,W,C]. */
export function registerResizeGradients(registry: KernelRegistry): void {
  for (const [name, source] of [
    ["ResizeNearestNeighborGrad", nearest],
    ["ResizeBilinearGrad", bilinear],
  ] as const) {
    registry.kernel<{ dy: TensorInfo; images: TensorInfo }, ResizeAttributes>(
      name,
      ({ inputs: { dy, images }, attrs }) => {
        const [N, H, W, C] = images.shape as [number, number, number, number];
        const [, OH, OW] = dy.shape as [number, number, number, number];
        const out = registry.backend.makeOutput(images.shape, "float32");
        const tables = registry.scratch((OH + OW) * 12);
        const view = new DataView(registry.backend.wasm.HEAPU8.buffer, tables, (OH + OW) * 12);
        [...sources(H, OH, attrs, source), ...sources(W, OW, attrs, source)].forEach(
          ({ first, second, weight }, i) => {
            view.setInt32(i * 12, first, true);
            view.setInt32(i * 12 + 4, second, true);
            view.setFloat32(i * 12 + 8, weight, true);
          },
        );
        registry.kernels.resizeGradient(
          registry.pointer(dy),
          registry.pointer(out),
          tables,
          N,
          H,
          W,
          C,
          OH,
          OW,
        );
        return out;
      },
    );
  }
}

const { fround } = Math;

/**
 * The sources of the `outputs` pixels along one axis, computed in the same float32 steps as in the forward
 * kernels.
 */
function sources(
  inputs: number,
  outputs: number,
  { alignCorners, halfPixelCenters = false }: ResizeAttributes,
  source: (position: number, inputs: number, attrs: ResizeAttributes) => Source,
): Source[] {
  const align = alignCorners && outputs > 1 ? 1 : 0;
  const scale = fround((inputs - align) / (outputs - align));
  return Array.from({ length: outputs }, (_, i) =>
    source(fround(scale * (halfPixelCenters ? i + 0.5 : i)), inputs, { alignCorners, halfPixelCenters }),
  );
}

function nearest(position: number, inputs: number, { alignCorners }: ResizeAttributes): Source {
  const index = Math.max(0, Math.min(inputs - 1, alignCorners ? Math.round(position) : Math.floor(position)));
  return { first: index, second: index, weight: 0 };
}

function bilinear(position: number, inputs: number, { halfPixelCenters = false }: ResizeAttributes): Source {
  const shifted = halfPixelCenters ? fround(position - 0.5) : position;
  const first = Math.max(0, Math.floor(shifted));
  return {
    first,
    second: Math.max(0, Math.min(inputs - 1, Math.ceil(shifted))),
    weight: fround(shifted - first),
  };
}
