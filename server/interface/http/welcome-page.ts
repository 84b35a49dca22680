/** The page that a browser gets at the root of the HTTP interface. It needs no token and contains no secret. */
export const welcomePage = (scheme: "http" | "https"): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stemma server</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { padding: 0.75rem 1rem; overflow-x: auto; border: 1px solid #8888; border-radius: 4px; }
</style>
</head>
<body>
<h1>Stemma server</h1>
<p>A Stemma server runs here. It keeps the lineage of the models of a fleet of devices, and recovers each of them
bit for bit. This is its HTTP interface for programs.</p>
<h2>From a terminal</h2>
<pre>export STEMMA_SERVER=${scheme}://THIS-ADDRESS
export STEMMA_TOKEN=…
stemma model list
stemma device list</pre>
<p>The token is in the file <code>http-token</code> of the server's home. On the server's own machine, the commands
need neither address nor token.</p>
<h2>From a program</h2>
<ul>
<li><a href="/api">All operations</a>, with what they take and answer, to try them with a token.</li>
<li><a href="/healthz"><code>/healthz</code></a> and <a href="/readyz"><code>/readyz</code></a> need no token: whether
the server works, and whether it accepts requests.</li>
<li><code>/v1/…</code>, <code>/metrics</code> and <code>/openapi.json</code> (the description of all routes) need the
header <code>Authorization: Bearer TOKEN</code>.</li>
</ul>
</body>
</html>
`;
