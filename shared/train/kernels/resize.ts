/**
 * Gradients of resizing images (upsampling layers). tfjs 4.22's wasm backend mixes up height and width
 * there, its cpu backend the images of a batch.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

interface ResizeAttributes {
  readonly alignCorners: boolean;
  readonly halfPixelCenters?: boolean;
}
interface Source {
  readonly first: number;
  readonly second: number;
  readonly weight: number;
}

/** dy [N,OH,OW,C], images [N,H,W,C] → [N,H,W,C]. */
export function registerResizeGradients(room: KernelRegistry): void {
  for (const [name, source] of [
    ["ResizeNearestNeighborGrad", nearest],
    ["ResizeBilinearGrad", bilinear],
  ] as const) {
    room.kernel<{ dy: TensorInfo; images: TensorInfo }, ResizeAttributes>(
      name,
      ({ inputs: { dy, images }, attrs }) => {
        const [N, H, W, C] = images.shape as [number, number, number, number];
        const [, OH, OW] = dy.shape as [number, number, number, number];
        const out = room.backend.makeOutput(images.shape, "float32");
        const tables = room.scratch((OH + OW) * 12);
        const view = new DataView(room.backend.wasm.HEAPU8.buffer, tables, (OH + OW) * 12);
        [...sources(H, OH, attrs, source), ...sources(W, OW, attrs, source)].forEach(
          ({ first, second, weight }, i) => {
            view.setInt32(i * 12, first, true);
            view.setInt32(i * 12 + 4, second, true);
            view.setFloat32(i * 12 + 8, weight, true);
          },
        );
        room.kernels.resizeGradient(room.pointer(dy), room.pointer(out), tables, N, H, W, C, OH, OW);
        return out;
      },
    );
  }
}

const { fround } = Math;

/**
 * Where each of `outputs` pixels along an axis was read from, in the float32 steps of the forward kernels.
 */
function sources(
  inputs: number,
  outputs: number,
  { alignCorners, halfPixelCenters = false }: ResizeAttributes,
  source: (at: number, inputs: number, attrs: ResizeAttributes) => Source,
): Source[] {
  const align = alignCorners && outputs > 1 ? 1 : 0;
  const scale = fround((inputs - align) / (outputs - align));
  return Array.from({ length: outputs }, (_, i) =>
    source(fround(scale * (halfPixelCenters ? i + 0.5 : i)), inputs, { alignCorners, halfPixelCenters }),
  );
}

function nearest(at: number, inputs: number, { alignCorners }: ResizeAttributes): Source {
  const index = Math.max(0, Math.min(inputs - 1, alignCorners ? Math.round(at) : Math.floor(at)));
  return { first: index, second: index, weight: 0 };
}

function bilinear(at: number, inputs: number, { halfPixelCenters = false }: ResizeAttributes): Source {
  const place = halfPixelCenters ? fround(at - 0.5) : at;
  const first = Math.max(0, Math.floor(place));
  return {
    first,
    second: Math.max(0, Math.min(inputs - 1, Math.ceil(place))),
    weight: fround(place - first),
  };
}
