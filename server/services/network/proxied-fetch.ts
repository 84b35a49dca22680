/**
 * `fetch` through the proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), which that of
 * Node 20 does not do.
 */
import type { EnvHttpProxyAgent } from "undici";

let dispatcher: EnvHttpProxyAgent | undefined;

/** The global `fetch`, or undici's where a proxy is named. */
export const proxiedFetch: typeof fetch = async (input, init) => {
  const named = (name: string): string | undefined =>
    process.env[name.toLowerCase()] ||
    process.env[name] ||
    process.env["all_proxy"] ||
    process.env["ALL_PROXY"];
  const [httpProxy, httpsProxy] = [named("HTTP_PROXY"), named("HTTPS_PROXY")];
  if (!httpProxy && !httpsProxy) return fetch(input, init);
  const undici = await import("undici");
  dispatcher ??= new undici.EnvHttpProxyAgent({ httpProxy: httpProxy ?? "", httpsProxy: httpsProxy ?? "" });
  type Parts = Parameters<typeof undici.fetch>;
  return await undici.fetch(input as Parts[0], {
    ...(init as Parts[1]),
    dispatcher,
  });
};
