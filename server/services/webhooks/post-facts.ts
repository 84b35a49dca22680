/**
 * Posts facts to a webhook's receiver, in one request. Follows no redirect, reads nothing of the answer but
 * its status, and ends by itself.
 */
import { connectionProblem } from "../../../shared/connection-error.js";
import { proxiedFetch } from "../network/proxied-fetch.js";

export type PostResult =
  { readonly isDelivered: true } | { readonly isDelivered: false; readonly because: string };
export type Post = (
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  signal: AbortSignal,
) => Promise<PostResult>;

const answerMs = 15_000;

export const postFacts: Post = async (url, headers, body, signal) => {
  try {
    const answer = await proxiedFetch(url, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
    });
    await answer.body?.cancel();
    if (answer.ok) return { isDelivered: true };
    return { isDelivered: false, because: `it answered ${answer.status}` };
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError")
      return { isDelivered: false, because: `no answer within ${answerMs / 1000} s` };
    return { isDelivered: false, because: connectionProblem(error).why.slice(0, 200) };
  }
};
