// Addresses: #/view/rest. The rest is a key or a text, and nothing of it reaches the server's paths.

export function read() {
  const match = /^#\/([a-z]+)(?:\/(.*))?$/.exec(location.hash);
  if (!match) return { view: "now", rest: "" };
  let rest = "";
  try {
    rest = decodeURIComponent(match[2] ?? "");
  } catch {
    rest = "";
  }
  return { view: match[1], rest };
}

export function href(view, rest = "") {
  return `#/${view}${rest ? `/${encodeURIComponent(rest).replaceAll("%2F", "/")}` : ""}`;
}
