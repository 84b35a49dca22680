/**
 * Copies that share their data. tfjs's wasm backend copies bytes for Identity (every clone, every
 * tensor saved for a gradient) and for casts to the same type; tensors are immutable, so a count of
 * references is enough, as its cpu backend does.
 */
import type { KernelRegistry, TensorInfo } from "./kernel-registry.js";

export function registerSharing(room: KernelRegistry): void {
  const share = (x: TensorInfo): TensorInfo => {
    room.backend.incRef(x.dataId);
    return { dataId: x.dataId, shape: x.shape, dtype: x.dtype };
  };
  const [identity, cast] = [room.stockKernel("Identity"), room.stockKernel("Cast")];
  room.kernel<{ x: TensorInfo }, object>("Identity", (call) =>
    call.inputs.x.dtype === "string" && identity ? identity(call as never) : share(call.inputs.x),
  );
  room.kernel<{ x: TensorInfo }, { dtype: string }>("Cast", (call) =>
    call.inputs.x.dtype !== call.attrs.dtype && cast ? cast(call) : share(call.inputs.x),
  );
}
