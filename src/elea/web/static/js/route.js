// Addresses: #/view/rest?at=TIME. The rest is a key or a text, and nothing of it reaches the server's paths.

export function read() {
  const match = /^#\/([a-z]+)(?:\/([^?]*))?(?:\?at=([^?]*))?$/.exec(location.hash);
  if (!match) return { view: "now", rest: "", at: null };
  return { view: match[1], rest: decoded(match[2] ?? ""), at: instant(decoded(match[3] ?? "")) };
}

/** @param {number|null} [at] seconds since 1970: the view at that time */
export function href(view, rest = "", at = null) {
  const path = rest ? `/${encodeURIComponent(rest).replaceAll("%2F", "/")}` : "";
  return `#/${view}${path}${at === null ? "" : `?at=${new Date(at * 1000).toISOString()}`}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function instant(text) {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? null : ms / 1000;
}
