/**
 * Identity and Cast without copying. tfjs's wasm backend copies the bytes for Identity (every clone, every
 * tensor saved for a gradient) and for casts to the same type. Tensors are immutable, so counting references
 * is enough, as tfjs's cpu backend does.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

/** Replaces Identity, and Cast to the same type. */
export function registerSharing(registry: KernelRegistry): void {
  const share = (x: TensorInfo): TensorInfo => {
    registry.backend.incRef(x.dataId);
    return { dataId: x.dataId, shape: x.shape, dtype: x.dtype };
  };
  const [identity, cast] = [registry.stockKernel("Identity"), registry.stockKernel("Cast")];
  registry.kernel<{ x: TensorInfo }, object>("Identity", (call) =>
    call.inputs.x.dtype === "string" && identity ? identity(call as never) : share(call.inputs.x),
  );
  registry.kernel<{ x: TensorInfo }, { dtype: string }>("Cast", (call) =>
    call.inputs.x.dtype !== call.attrs.dtype && cast ? cast(call) : share(call.inputs.x),
  );
}
