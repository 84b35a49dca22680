/**
 * The start code inside @tensorflow/tfjs-backend-wasm, for which that package exports no types.
 */
declare module "@tensorflow/tfjs-backend-wasm/wasm-out/tfjs-backend-wasm.js" {
  interface StartableModule {
    HEAPU8: Uint8Array;
    _malloc: (bytes: number) => number;
    _free: (pointer: number) => void;
    readonly asm: { readonly memory: WebAssembly.Memory };
    cwrap(name: string, returns: "number" | null, args: readonly "number"[]): unknown;
    tfjs: Record<string, unknown>;
  }
  export default function startModule(options: {
    wasmBinary: Uint8Array;
    print(text: string): void;
    printErr(text: string): void;
  }): Promise<StartableModule>;
}
