/** Formats a host name or IP address as it is written in a URL: an IPv6 address gets brackets (RFC 3986, 3.2.2). */
export function urlHost(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
