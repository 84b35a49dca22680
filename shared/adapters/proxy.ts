/**
 * Connections through the proxy that the environment names: HTTPS_PROXY or ALL_PROXY, but for the hosts in NO_PROXY,
 * as curl reads them. The proxy only passes bytes on (CONNECT); TLS is with the server itself.
 */
import { request as httpRequest, type ClientRequest } from "node:http";
import type { Socket } from "node:net";
import { getProxyForUrl } from "proxy-from-env";
import { connectionError } from "../connection-error.js";
import { StemmaError } from "../errors.js";

/**
 * The proxy for an https URL; undefined where the environment names none for it.
 * @throws USAGE for one that is not an http or https URL
 */
export function proxyOf(url: URL): URL | undefined {
  const text = url.protocol === "https:" ? getProxyForUrl(url.href) : "";
  if (text === "") return undefined;
  const proxy = URL.canParse(text) ? new URL(text) : undefined;
  if (
    proxy === undefined ||
    !["http:", "https:"].includes(proxy.protocol) ||
    credentialsOf(proxy) === undefined
  )
    throw new StemmaError(
      "USAGE",
      `HTTPS_PROXY or ALL_PROXY names "${proxy?.protocol ?? ""}//…", which cannot be used as a proxy. Write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with %25 for a % of the password.`,
    );
  return proxy;
}

/** User and password as HTTP sends them, ":" where there are none; undefined where they are not percent-encoded. */
function credentialsOf({ username, password }: URL): string | undefined {
  try {
    return `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  } catch {
    return undefined;
  }
}

/**
 * Opens a connection to a host through a proxy.
 * @throws SERVER_UNREACHABLE naming the proxy, TIMED_OUT
 */
export async function tunnel(
  proxy: URL,
  { host, port }: { readonly host: string; readonly port: number },
  timeoutMs: number,
): Promise<Socket> {
  const target = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const name = `The proxy ${proxy.protocol}//${proxy.host} (HTTPS_PROXY or ALL_PROXY)`;
  const start = proxy.protocol === "https:" ? (await import("node:https")).request : httpRequest;
  const credentials = credentialsOf(proxy) ?? ":";
  const sent = start({
    host: proxy.hostname.replace(/^\[|\]$/g, ""),
    port: proxy.port || (proxy.protocol === "https:" ? 443 : 80),
    method: "CONNECT",
    path: target,
    headers: {
      host: target,
      ...(credentials === ":"
        ? {}
        : { "proxy-authorization": `Basic ${Buffer.from(credentials).toString("base64")}` }),
    },
    agent: false,
  });
  return await socketOf(sent, { name, target, timeoutMs });
}

function socketOf(
  sent: ClientRequest,
  { name, target, timeoutMs }: { readonly name: string; readonly target: string; readonly timeoutMs: number },
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      sent.destroy(
        new StemmaError(
          "TIMED_OUT",
          `${name} did not open a connection to ${target} within ${timeoutMs / 1000} s. Try again later, or name the host in NO_PROXY where it can be reached directly.`,
        ),
      );
    }, timeoutMs);
    const refuse = (status: number | undefined, socket: { destroy(): void }): void => {
      clearTimeout(timer);
      socket.destroy();
      const next =
        status === 407
          ? "Name user and password in it: http://USER:PASSWORD@HOST:PORT."
          : "Let it allow that, or name the host in NO_PROXY where it can be reached directly.";
      reject(
        new StemmaError(
          "SERVER_UNREACHABLE",
          `${name} answered ${status} and opens no connection to ${target}. ${next}`,
        ),
      );
    };
    sent.once("connect", ({ statusCode }, socket: Socket, head: Buffer) => {
      if (statusCode !== 200) {
        refuse(statusCode, socket);
        return;
      }
      clearTimeout(timer);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    sent.once("response", (answer) => {
      refuse(answer.statusCode, answer);
    });
    sent.once("error", (error) => {
      clearTimeout(timer);
      reject(connectionError(name, error));
    });
    sent.end();
  });
}
