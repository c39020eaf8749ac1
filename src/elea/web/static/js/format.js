// Numbers and times as an instrument shows them.

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Three significant digits: 12.3k. What is not known is a dash, never 0. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  for (const [factor, unit] of UNITS) if (Math.abs(value) >= factor) return digits(value / factor) + unit;
  return digits(value);
}

function digits(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1000) return String(value);
  const size = Math.abs(value);
  if (size < 0.1) return String(Number(value.toPrecision(3)));
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** A number of bytes: 12.3 kB. */
export function bytes(value) {
  return `${number(value).replace(/([kMG])$/, " $1")}${value >= 1000 ? "B" : " B"}`;
}

/** An age in seconds. */
export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** A time of day, 24 hours, local. */
export function clock(seconds) {
  const date = new Date(seconds * 1000);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/** A count and its noun. */
export function counted(count, noun, plural = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

/** A timestamp without the id of its clock, to the millisecond. */
export function stamp(text) {
  return text.split("/")[0].replace("T", " ").replace(/(\.\d{3})\d*/, "$1");
}
