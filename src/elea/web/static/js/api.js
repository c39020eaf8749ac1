// Requests to the page's own endpoints, with the token if there is one.

const KEY = "elea.token";
const ROOT = new URL("@elea/ui/", location.href.split("#")[0]);

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** A link may carry a token: it is kept for this tab, and taken out of the address. */
export function takeToken() {
  const match = /^#token=([^&]+)/.exec(location.hash);
  if (!match) return;
  setToken(decodeURIComponent(match[1]));
  history.replaceState(null, "", location.href.split("#")[0]);
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

/** Forget a token that was refused: that of a router that was started anew. Whether there was one. */
export function dropToken() {
  const had = sessionStorage.getItem(KEY) !== null;
  sessionStorage.removeItem(KEY);
  return had;
}

export async function get(name, params = {}) {
  const url = new URL(name, ROOT);
  for (const [key, value] of Object.entries(params)) url.searchParams.set(key, value);
  return answer(fetch(url, { headers: headers() }));
}

export async function post(name, body = {}) {
  const all = { ...headers(), "content-type": "application/json" };
  return answer(fetch(new URL(name, ROOT), { method: "POST", headers: all, body: JSON.stringify(body) }));
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function answer(pending) {
  const response = await pending;
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, value.detail || `status ${response.status}`);
  return value;
}

export function liveUrl() {
  const url = new URL("live", ROOT);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}
